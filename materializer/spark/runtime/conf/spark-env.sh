# Read by Spark's own start script because SPARK_CONF_DIR names this folder while the JVM is launched.
# It sends what the JVM prints to a file, and puts the user's configuration folder back.
if [ -n "${MATERIALIZER_SPARK_CONF_DIR:-}" ]; then
  SPARK_CONF_DIR="$MATERIALIZER_SPARK_CONF_DIR"
  if [ -f "$SPARK_CONF_DIR/spark-env.sh" ]; then . "$SPARK_CONF_DIR/spark-env.sh"; fi
else
  SPARK_CONF_DIR="$SPARK_HOME/conf"
fi
if [ -n "${MATERIALIZER_JVM_LOG:-}" ]; then exec >>"$MATERIALIZER_JVM_LOG" 2>&1; fi
# Spark's launcher is a JVM of its own that only makes up a command line.
export SPARK_LAUNCHER_OPTS="${SPARK_LAUNCHER_OPTS:--XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData}"
