"""The materialization `continuous_aggregate` of dbt: an adapter that is dbt-spark's, with one kind of model more."""
