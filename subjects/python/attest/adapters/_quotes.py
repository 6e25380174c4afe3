"""The sentences that adapters rest on, in tables that stand in their sources.

A table is a text. A line that is not indented names a document, as tests/python/refusal_documents.py finds it. An indented one, or
what stands behind the name and a bar, is a row,

    LABEL LABEL ... ! REFUSAL ! REFUSAL ... | SENTENCE

of the labels of describe's `documents` (docs/plugin.md) that the sentence is told under, - where it is read and told nowhere, and of
the refusals that rest on it, with {holes} where the text that is raised has them. tests/python/test_refusals.py looks every sentence up in its document.
"""


def rows(table):
    """(document, labels, refusals, sentence) of each row."""
    document = ""
    for line in filter(None, table.splitlines()):
        if line[0] != " ":
            document, _, line = line.partition(" | ")
        if line:
            head, _, sentence = line.strip().partition(" | ")
            labels, *refusals = head.split("! ")
            yield document, labels.split(), [refusal.strip() for refusal in refusals], sentence


def quotes(table):
    """{label: [(document, sentence), ...]}."""
    made = {}
    for document, labels, _, sentence in rows(table):
        for label in set(labels) - {"-"}:
            made.setdefault(label, []).append((document, sentence))
    return made


def refusals(table):
    """{refusal: [(document, sentence), ...]}."""
    made = {}
    for document, _, texts, sentence in rows(table):
        for text in texts:
            made.setdefault(text, []).append((document, sentence))
    return made


def citing(release):
    """cited(document, sentence): in words, with the library and the version in which its sentences were read."""
    def cited(document, sentence):
        return f'{release}, {document.partition(" ")[2].removeprefix("of ")}: "{sentence}"'
    return cited


def told(documents, cited):
    """describe's `documents`."""
    return {about: [cited(*pair) for pair in pairs] for about, pairs in documents.items()}
