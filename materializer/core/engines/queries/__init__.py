"""The queries of the engines that both executors carry out, each in the module that has the name of its engine's."""
