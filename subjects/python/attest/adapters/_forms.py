"""The forms in which an adapter says a call (docs/plugin.md, "forms")."""

from attest import Unsupported

from ._quotes import told


def words(values):
    """The values of a form, without what they promise."""
    return [value["value"] if isinstance(value, dict) else value for value in values]


def drawn(value, where="", **needs):
    """A value of a form that is drawn beside those of other forms that it needs, of problems for which `where` holds."""
    return {"value": value} | ({"where": where} if where else {}) | ({"needs": needs} if needs else {})


def may_be_empty(*dims):
    """supports' `dims` of those that may be 0: no document excludes a tensor without elements."""
    return {name: [0, None, 1] for name in dims}


def refuse(holds, reason):
    """Raises attest.Unsupported where that holds."""
    if holds:
        raise Unsupported(reason)


ALWAYS = {  # describe's `supports` of most adapters, by the operation
    "attention": {
        "causal": True, "align": ["top_left", "bottom_right"], "gqa": True, "bias": True, "bias_dtypes": ["same"], "keep": True,
        "kv_lengths": True, "window": True, "softcap": False, "lse": False, "stages": [], "strides": "any"},
    "layer_norm": {
        "norms": ["layer"], "residual": False, "sum_out": False, "gamma": True, "beta": True, "param_dtypes": ["same"],
        "strides": "any"},
    "mha": {
        "memory": ["self"], "in_biases": True, "out_bias": True, "causal": True, "align": ["top_left", "bottom_right"],
        "gqa": False, "bias": True, "keep": True, "kv_lengths": True, "scale": "default", "stages": [], "strides": "any"},
}


# The ways of a whole block of which no document says which one is taken.
BLOCK_WAYS = {"projections": ["rounded", "separate", "unrounded"], "heads": ["rounded", "unrounded"]}


def described(op, dtypes, supports, contract, **more):
    """What describe() returns."""
    return {"ops": [op], "dtypes": list(dtypes), "concurrent": False, "supports": {**ALWAYS[op], **supports}, "contract": contract,
            **more}


class Formed:
    """A subject whose class has `forms`, in describe's way of writing them. `pinned`: forms that keep one value, in a subject that
    has all others at their first: what a name such as Attention-3d is short for."""

    forms = {}
    times = {}  # describe's plan_ms and warm_up_ms, as measured on the CPU of one machine
    documents = {}  # quotes() of _quotes.py

    def __init__(self, name, **pinned):
        self.name = name
        self.pinned = pinned
        for form, value in pinned.items():
            if value not in words(self.forms[form]):
                raise ValueError(f"{name}: {form} has no value {value!r}, it has {', '.join(words(self.forms[form]))}")
        # One that a base class has and a subclass leaves out keeps its first value, too.
        self.first = {form: words(values)[0] for kind in reversed(type(self).__mro__)
                      for form, values in vars(kind).get("forms", {}).items()} | pinned

    def offered(self):
        return {} if self.pinned else self.forms

    def promised(self, contract):
        """The contract with what pinned forms promise in its place."""
        for form, value in self.pinned.items():
            for entry in self.forms[form]:
                if isinstance(entry, dict) and entry["value"] == value:
                    contract = contract | entry.get("contract", {})
        return contract

    def quoted(self, cited):
        """describe's `documents`: cited(document, sentence) of each, but for what is said of forms that are not offered."""
        offered = {f"form.{form}{end}" for form, values in self.offered().items()
                   for end in ("", *(f"={value}" for value in words(values)))}
        return told({about: pairs for about, pairs in self.documents.items() if about in offered or not about.startswith("form.")}, cited)

    def said(self, call):
        """The value in effect of each form."""
        return self.first | call.form
