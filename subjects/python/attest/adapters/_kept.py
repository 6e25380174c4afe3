"""Objects that take time to make, kept by what they are made of."""

from collections import OrderedDict


class Kept:
    """The objects made of models, by their keys: the `most` used last."""

    def __init__(self, most):
        self.most = most
        self.made = OrderedDict()  # least recently used first

    def get(self, key, make):
        if key not in self.made:
            self.made[key] = make()
            if len(self.made) > self.most:
                self.made.popitem(last=False)
        self.made.move_to_end(key)
        return self.made[key]
