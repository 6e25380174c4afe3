"""The documents of ONNX and of ONNX Runtime, as describe's `documents` (docs/plugin.md) tell them.

DOCUMENTS of an adapter has (document, sentence), or a list of such, by what they are about. A document has the name by which
tests/python/refusal_documents.py finds it; a test looks every sentence up there.
"""

# Sentences that the schemas of several contrib operators have in the same words.
CUSTOM_SCALE = "Custom scale will be used if specified. Default value is 1/sqrt(head_size)"
FILTER_VALUE = "The value to be filled in the attention mask. Default value is -10000.0f"
ATTENTION_BIAS = "additional add to QxK' with shape (batch_size or 1, num_heads or 1, sequence_length, total_sequence_length)"
UNIDIRECTIONAL = "Whether every token can only attend to previous tokens. Default value is 0."
PROJECTION_BIAS = "Bias tensor with shape (hidden_size + hidden_size + v_hidden_size)"
SHARED_BUFFER = "When past_present_share_buffer is used, it is required to specify past_sequence_length (could be 0)."

# The beginning of a document's name, and that of its title, with the version in which its sentences were read.
_TITLES = {
    "schema of ai.onnx ": "ONNX 1.23, ",
    "schema of com.microsoft ": "onnxruntime 1.31, com.microsoft.",
    "docstring of onnx.": "ONNX 1.23, onnx.",
    "page ": "onnxruntime.ai, ",
}


def cited(document, sentence):
    start = next(start for start in _TITLES if document.startswith(start))
    return f'{_TITLES[start]}{document.removeprefix(start)}: "{sentence}"'
