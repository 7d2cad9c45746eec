"""DAGs made of policies while Airflow reads a file: no Spark, no JVM."""
