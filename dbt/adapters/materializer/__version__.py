"""The version that `dbt --version` and `dbt debug` show."""

version = "0.1.0"
