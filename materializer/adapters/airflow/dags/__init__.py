"""DAGs generated from policies while Airflow parses a file: no Spark, no JVM."""
