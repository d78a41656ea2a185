#!/usr/bin/python3
"""Writes the two halves of a model as TorchScript files: export_halves.py FOLDER

Each party would run its own half of this file and show it to nobody. Any torch.nn.Module will do whose forward takes and
gives what ModelSpec.torchscript_path in proto/splitveil/v1/model.proto says. torch.jit.script keeps train and eval mode
apart (BatchNorm, Dropout); torch.jit.trace freezes the mode it was called in, so trace in eval mode.
"""

import sys

import torch
from torch import nn

CUT_WIDTH = 32  # RunAgreement.cut_width.
NUMERIC, CATEGORICAL, DIMENSION = 13, 26, 4  # Columns of the example's data; `embedding` of nonlabel_party.textproto.


class Bottom(nn.Module):
    """The non-label party's: embedded features -> cut layer. Its submodules are the layers that can be audited."""

    def __init__(self):
        super().__init__()
        width = NUMERIC + CATEGORICAL * DIMENSION
        self.trunk = nn.Sequential(nn.Linear(width, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1))
        self.block = nn.Linear(64, 64)
        self.out = nn.Linear(64, CUT_WIDTH)

    def forward(self, x):
        hidden = self.trunk(x)
        return self.out(hidden + torch.relu(self.block(hidden)))  # A residual connection.


class Top(nn.Module):
    """The label party's: cut layer and its own numbers -> logit."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(CUT_WIDTH + NUMERIC + CATEGORICAL, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, z, own):  # own: the numbers and an embedding of one number per category.
        return self.layers(torch.cat([z, own], 1))


if __name__ == "__main__":
    folder = sys.argv[1]
    torch.manual_seed(1)
    torch.jit.script(Bottom()).save(folder + "/bottom.pt")
    torch.jit.script(Top()).save(folder + "/top.pt")
