"""Halves made, trained and read in Python, for bring_your_own_test.cc.

  halves.py make KIND FOLDER         bottom.pt and top.pt, fresh
  halves.py train KIND FOLDER SEEDS  the same two in one process on batches.pt -> expected.pt; SEEDS: of both dropouts
  halves.py read FOLDER PARTY        PARTY.pt on inputs.pt -> outputs.pt; PARTY.state_dict.pt must hold the same numbers
  halves.py auc FOLDER               both halves on test.pt (features of either, labels): prints the AUC
"""

import sys

import torch
from torch import nn

CUT_WIDTH = 8
EMBEDDED = 2 + 2 * 4  # SmallRun's columns: two numbers, two categories of four numbers each.
OWN = 2 + 2 * 1


class ScriptedBottom(nn.Module):
    def __init__(self):
        super().__init__()
        # No bias before the normalisation: its gradient is zero, of which Adam makes a step of rounding errors.
        self.features = nn.Sequential(
            nn.Linear(EMBEDDED, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(inplace=True), nn.Dropout(0.25))
        self.out = nn.Linear(16, CUT_WIDTH)

    def forward(self, x):
        return self.out(self.features(x))


class ScriptedTop(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(CUT_WIDTH + OWN, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))

    def forward(self, z, own):
        return self.layers(torch.cat([z, own], 1)).squeeze(1)


class TracedBottom(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(EMBEDDED, 16), nn.Tanh())
        self.out = nn.Linear(16, CUT_WIDTH)

    def forward(self, x):
        return self.out(self.features(x))


class TracedTop(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(CUT_WIDTH, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, z):
        return self.layers(z)


class ConvolutionalBottom(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Flatten())
        self.out = nn.Linear(4 * 4 * 4, CUT_WIDTH)

    def forward(self, x):
        return self.out(self.features(x))


def new_halves(kind):
    if kind == "scripted":
        return ScriptedBottom(), ScriptedTop()
    if kind == "traced":
        return TracedBottom(), TracedTop()
    return ConvolutionalBottom(), TracedTop()


def make(kind, folder):
    torch.manual_seed(11)
    bottom, top = new_halves(kind)
    if kind == "traced":
        bottom = torch.jit.trace(bottom, torch.rand(5, EMBEDDED))
        top = torch.jit.trace(top, torch.rand(5, CUT_WIDTH))
    else:
        bottom, top = torch.jit.script(bottom), torch.jit.script(top)
    bottom.save(folder + "/bottom.pt")
    top.save(folder + "/top.pt")


class Embedded(nn.Module):
    """[embeddings of the categories, numbers], trained row by row."""

    def __init__(self, table):
        super().__init__()
        self.table = nn.Embedding.from_pretrained(table.clone(), freeze=False, sparse=True)

    def forward(self, numbers, categories):
        return torch.cat([self.table(categories).flatten(1), numbers], 1)


def train(kind, folder, bottom_seed, top_seed):
    bottom, top = new_halves(kind)
    bottom.load_state_dict(torch.jit.load(folder + "/bottom.pt").state_dict())
    top.load_state_dict(torch.jit.load(folder + "/top.pt").state_dict())
    data = torch.load(folder + "/batches.pt")
    embeddings = [Embedded(table) for table in data["tables"]]
    optimizers = [torch.optim.Adam(list(bottom.parameters()) + list(top.parameters()), lr=1e-3)]
    optimizers += [torch.optim.SparseAdam(list(embedding.parameters()), lr=1e-3) for embedding in embeddings]
    batches = [data[name] for name in ("numbers", "categories", "own_numbers", "own_categories", "labels")]
    for step, (numbers, categories, own_numbers, own_categories, labels) in enumerate(zip(*batches)):
        x = embeddings[0](numbers, categories) if embeddings else numbers
        torch.manual_seed(bottom_seed + step)
        z = bottom(x)
        torch.manual_seed(top_seed + step)
        logits = top(z, embeddings[1](own_numbers, own_categories)) if kind == "scripted" else top(z)
        loss = nn.functional.binary_cross_entropy_with_logits(logits.reshape(-1), labels)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    expected = {"bottom." + name: value.detach() for name, value in bottom.state_dict().items()}
    expected.update({"top." + name: value.detach() for name, value in top.state_dict().items()})
    for name, embedding in zip(("bottom_table", "top_table"), embeddings):
        expected[name] = embedding.table.weight.detach()
    torch.save({name: value.float() for name, value in expected.items()}, folder + "/expected.pt")


def read(folder, party):
    half = torch.jit.load(folder + "/" + party + ".pt")
    state = torch.load(folder + "/" + party + ".state_dict.pt")
    own = half.state_dict()
    assert sorted(state) == sorted(own), (sorted(state), sorted(own))
    for name in own:
        assert state[name].shape == own[name].shape and torch.equal(state[name], own[name]), name
    assert not half.training
    half.train()  # As Python's modules do.
    half.eval()
    with torch.no_grad():
        torch.save(half(*torch.load(folder + "/inputs.pt")), folder + "/outputs.pt")


def auc(folder):
    bottom, top = (torch.jit.load("%s/%s.pt" % (folder, party)) for party in ("nonlabel_party", "label_party"))
    data = torch.load(folder + "/test.pt")
    with torch.no_grad():
        scores = top(bottom(*data["bottom"]), *data["top"]).reshape(-1).double()
    labels = data["labels"][0]
    # The share of pairs that are in the right order (Hanley and McNeil, 1982), a tie being half a pair.
    differences = scores[labels == 1].unsqueeze(1) - scores[labels == 0].unsqueeze(0)
    print("%.17g" % ((differences > 0).double() + (differences == 0).double() / 2).mean().item())


if __name__ == "__main__":
    torch.set_num_threads(1)
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "make":
        make(*arguments)
    elif command == "train":
        train(arguments[0], arguments[1], int(arguments[2]), int(arguments[3]))
    elif command == "auc":
        auc(*arguments)
    else:
        read(*arguments)
