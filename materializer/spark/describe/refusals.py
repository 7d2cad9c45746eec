"""What Spark says of an expression that it refuses."""

from __future__ import annotations

from pyspark.errors import AnalysisException


def quoted_in(error: AnalysisException) -> str:
    """Return the name or text that Spark's sentence quotes first, "" without one."""
    sentence = sentence_of(error)
    values = [v for v in (error.getMessageParameters() or {}).values() if v.startswith(("`", "'")) and v in sentence]
    return min(values, key=sentence.index, default="").strip("`'").partition("`")[0]


def sentence_of(error: AnalysisException) -> str:
    """Return Spark's sentence about an expression, without its class and state."""
    text = str(error).strip().split("\n", 1)[0].split(" SQLSTATE:", 1)[0]
    bare = text.split("] ", 1)[1] if text.startswith("[") and "] " in text else text
    return bare[:1].lower() + bare[1:].rstrip(".; ")
