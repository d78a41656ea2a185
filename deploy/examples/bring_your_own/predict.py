#!/usr/bin/python3
"""What to do with the trained halves in Python: predict.py FOLDER, which holds nonlabel_party.pt and label_party.pt"""

import sys

import torch

folder = sys.argv[1]
bottom = torch.jit.load(folder + "/nonlabel_party.pt")
top = torch.jit.load(folder + "/label_party.pt")
numeric = torch.rand(3, 13)  # Prepared as in training: `splitveil prepare` says how.
categories = torch.zeros(3, 26, dtype=torch.int64)
with torch.no_grad():
    print(torch.sigmoid(top(bottom(numeric, categories), numeric, categories)).flatten())
for name, tensor in torch.load(folder + "/nonlabel_party.state_dict.pt").items():
    print(name, list(tensor.shape))
