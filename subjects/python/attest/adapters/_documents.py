"""Describe's `documents` (docs/plugin.md), each sentence with the name of its document.

DOCUMENTS of an adapter has (document, sentence), or a list of such, by what they are about. A document has the name by which
tests/python/refusal_documents.py finds it; a test looks every sentence up there.
"""


def citing(release):
    """cited(document, sentence): in words, with the library and the version in which its sentences were read."""
    def cited(document, sentence):
        return f'{release}, {document.partition(" ")[2].removeprefix("of ")}: "{sentence}"'
    return cited
