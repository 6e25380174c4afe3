"""Every Unsupported that an adapter raises rests on a sentence of its library's documents, and its quotes stand there.

Both stand in the tables of attest.adapters._quotes in the adapter's source: each reason as the source has it, {holes} of an f-string
included, and the labels of describe's `documents`. refusal_documents.py says what a document is.

Usage: test_refusals.py holds the tables against the sources of all adapters and needs no package; test_refusals.py PACKAGE looks
the sentences up in the documents as they are installed under ATTEST_PYTHON, and exits with 125 where PACKAGE is not.
"""

import ast
import importlib
import os
import sys
import unittest
from importlib.util import find_spec
from pathlib import Path

import refusal_documents as documents
from need_package import need

ADAPTERS = Path(__file__).resolve().parents[2] / "subjects" / "python" / "attest" / "adapters"
sys.path.insert(0, str(ADAPTERS.parents[1]))

from attest.adapters._quotes import rows

PLUGIN = (ADAPTERS.parents[3] / "docs" / "plugin.md").read_text(encoding="utf-8")
QUOTABLE = PLUGIN[PLUGIN.index("\n`documents`: "):].split("\n\n")[0]  # the documents that can be quoted, in its words


class Module:
    """An adapter's source: the reasons that it raises, its table and its head."""

    def __init__(self, path):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.name = path.name
        self.head = ast.get_docstring(tree) or ""
        tables = [ast.literal_eval(node.args[0]) for node in ast.walk(tree)
                  if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("quotes", "refusals")]
        self.rows = [row for table in tables for row in rows(table)]
        self.refused = {}
        for document, _, reasons, sentence in self.rows:
            for reason in reasons:
                self.refused.setdefault(reason, []).append((document, sentence))
        self.raised = {text: node.lineno for node in ast.walk(tree)
                       if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Unsupported", "refuse")
                       and not isinstance(node.args[-1], ast.Name)  # refuse() itself
                       for text in self.texts(node.args[-1])}

    def texts(self, node):
        """The texts that a string expression may have."""
        if isinstance(node, ast.IfExp):
            return self.texts(node.body) + self.texts(node.orelse)
        if isinstance(node, ast.JoinedStr):
            return ["".join(part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
                            for part in node.values)]
        return [ast.literal_eval(node)]


def families(package):
    """The adapters whose documents are installed with the package."""
    return ("onnxruntime", "onnx") if package == "onnxruntime" else (package,)


def subjects(family):
    """The names of an adapter's subjects that one process can have: Keras has one backend there."""
    names = list(importlib.import_module(f"attest.adapters.{family}").SUBJECTS)
    return [name for name in names if name.partition("-")[0] == os.environ["KERAS_BACKEND"]] if family == "keras" else names


def modules(package=None):
    """The modules of all adapters, or of those of one package."""
    names = tuple(name for family in families(package) for name in (f"{family}.py", f"_{family}_")) if package else ("",)
    return [Module(path) for path in sorted(ADAPTERS.glob("*.py")) if path.name.startswith(names)]


class Tables(unittest.TestCase):
    def test_every_refusal_has_an_entry_and_every_entry_a_refusal(self):
        for module in modules():
            with self.subTest(module.name):
                for reason, line in module.raised.items():
                    self.assertIn(reason, module.refused, f"{module.name}:{line} rests on nothing: say on what in a table of quotes")
                self.assertLessEqual(set(module.refused), set(module.raised), "entries that nothing raises")

    def test_every_entry_names_a_document_and_a_sentence(self):
        for module in modules():
            for document, labels, reasons, sentence in module.rows:
                self.assertTrue(documents.known(document), f"{module.name}: no document is called {document!r}")
                self.assertTrue(labels or reasons, f"{module.name}: nothing rests on {sentence!r}")
                self.assertGreaterEqual(len(sentence), 10, f"{module.name}: {document}")

    def test_arithmetic_is_right(self):
        sentences = [sentence for module in modules() for document, _, _, sentence in module.rows if document == "arithmetic"]
        self.assertTrue(sentences)
        for sentence in sentences:
            self.assertIn(sentence, documents.text("arithmetic", "").splitlines())

    def test_there_is_something_to_hold(self):
        self.assertGreater(sum(len(module.raised) for module in modules()), 30)


class Documents(unittest.TestCase):
    def test_every_sentence_stands_in_its_document(self):
        held = 0
        for module in modules(PACKAGE):
            for document, _, _, sentence in module.rows:
                with self.subTest(module.name, document=document, sentence=sentence):
                    if document.startswith("page "):
                        self.assertIn(document.removeprefix("page "), module.head)
                        self.assertIn("https://", module.head)
                    else:
                        self.assertIn(documents.plain(sentence), documents.plain(documents.text(document, module.head)))
                    held += 1
        self.assertGreater(held, 0)

    def test_what_describe_quotes_stands_in_its_document(self):
        for family in families(PACKAGE):
            for name in subjects(family):
                subject = importlib.import_module(f"attest.adapters.{family}").SUBJECTS[name]()
                told = subject.describe().get("documents", {})
                for about, pairs in getattr(subject, "documents", {}).items():
                    with self.subTest(f"{family}:{name}", about=about):
                        self.hold(subject, about, pairs, told)

    def hold(self, subject, about, pairs, told):
        from attest.adapters._forms import words  # needs NumPy

        if about.startswith("form."):
            form, _, value = about.removeprefix("form.").partition("=")
            kinds = [kind.forms[form] for kind in type(subject).__mro__ if form in getattr(kind, "forms", {})]
            self.assertTrue(kinds)
            self.assertTrue(value == "" or any(value in words(values) for values in kinds))
            if form not in subject.offered() or value and value not in words(subject.offered()[form]):
                self.assertNotIn(about, told)
                return
        else:
            self.assertIn(f"`{about}`", QUOTABLE)
        self.assertEqual(len(told[about]), len(pairs))
        for text, (_, sentence) in zip(told[about], pairs):
            self.assertTrue(text.endswith(f': "{sentence}"'), text)
            self.assertLessEqual(len(text.encode()), 400)  # docs/plugin.md

    def test_a_sentence_that_nobody_wrote_is_not_there(self):
        for module in modules(PACKAGE):
            for (document, _), *_ in module.refused.values():
                self.assertNotIn("attention takes no prisoners", documents.plain(documents.text(document, module.head)))


if __name__ == "__main__":
    PACKAGE = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
    if PACKAGE:
        sys.argv.insert(1, PACKAGE)  # for the interpreter that need() may start
        need(PACKAGE, f"it is never part of ./run test, ./run fuzz {PACKAGE}: installs it")
        sys.argv.pop(1)
    if PACKAGE == "keras":  # its documents are the same on all backends; NumPy's needs SciPy, too
        os.environ["KERAS_BACKEND"] = next(name for name in ("jax", "torch", "tensorflow", "numpy") if find_spec(name))
    unittest.main(defaultTest="Documents" if PACKAGE else "Tables")
