"""What is dirty and how it is computed: dirt in, plan out; the plan is what runs."""
