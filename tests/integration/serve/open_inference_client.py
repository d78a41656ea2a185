"""Asks a server all that the Open Inference Protocol has, by stubs that protoc makes from the .proto and by curl.
Usage: open_inference_client.py PROTO_FOLDER HOST:PORT TOKEN SOCKET MODEL ID PROBABILITY. Exit 77: something is missing.
"""
import json
import math
import shutil
import subprocess
import sys
import tempfile

try:
    import grpc
except ImportError:
    print("python3-grpcio is missing")
    sys.exit(77)
if not shutil.which("protoc") or not shutil.which("curl"):
    print("protoc or curl is missing")
    sys.exit(77)

proto_folder, address, token, socket, model, known, probability = sys.argv[1:]
probability = float(probability)


def check(what, found, expected):
    assert found == expected, f"{what}: expected {expected}, found {found}"
    print("ok", what)


def close(what, found):
    assert abs(found - probability) < 1e-6, what
    print("ok", what)


with tempfile.TemporaryDirectory() as made:
    subprocess.run(["protoc", f"-I{proto_folder}", f"--python_out={made}", "inference/grpc_service.proto"], check=True)
    sys.path.insert(0, made)
    from inference import grpc_service_pb2 as pb

    service = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    check("calls", sorted(service.methods_by_name),
          ["ModelInfer", "ModelMetadata", "ModelReady", "ServerLive", "ServerMetadata", "ServerReady"])
    channel = grpc.insecure_channel(address)

    def call(call_name, **fields):
        method = service.methods_by_name[call_name]
        ask = channel.unary_unary(f"/{service.full_name}/{call_name}",
                                  request_serializer=lambda message: message.SerializeToString(),
                                  response_deserializer=getattr(pb, method.output_type.name).FromString)
        return ask(getattr(pb, method.input_type.name)(**fields), timeout=20,
                   metadata=[("authorization", f"Bearer {token}")])

    check("ServerLive", call("ServerLive").live, True)
    check("ServerReady", call("ServerReady").ready, True)
    check("ModelReady", call("ModelReady", name=model).ready, True)
    check("ServerMetadata", call("ServerMetadata").name, "splitveil")
    metadata = call("ModelMetadata", name=model)
    check("ModelMetadata", (metadata.name, list(metadata.versions), [(t.name, t.datatype, list(t.shape))
                                                                     for t in [*metadata.inputs, *metadata.outputs]]),
          (model, ["1"], [("id", "BYTES", [-1]), ("probability", "FP32", [-1]), ("found", "BOOL", [-1])]))
    tensor = pb.ModelInferRequest.InferInputTensor(name="id", datatype="BYTES", shape=[2])
    tensor.contents.bytes_contents.extend([known.encode(), b"nobody"])
    answer = call("ModelInfer", model_name=model, id="mine", inputs=[tensor])
    check("ModelInfer", (answer.id, list(answer.outputs[1].contents.bool_contents)), ("mine", [True, False]))
    close("its value", answer.outputs[0].contents.fp32_contents[0])
    assert math.isnan(answer.outputs[0].contents.fp32_contents[1])


def curl(path, *options):
    done = subprocess.run(["curl", "-sS", "-w", "\n%{http_code}", "--unix-socket", socket, f"http://localhost{path}",
                           *options], check=True, capture_output=True, text=True)
    body, code = done.stdout.rsplit("\n", 1)
    return int(code), json.loads(body)


check("GET /v2/health/live", curl("/v2/health/live"), (200, {"live": True}))
check("GET /v2/health/ready", curl("/v2/health/ready"), (200, {"ready": True}))
check("GET /v2", curl("/v2")[1]["name"], "splitveil")
for path in f"/v2/models/{model}", f"/v2/models/{model}/versions/1":
    check(f"GET {path}", curl(path)[1]["inputs"], [{"name": "id", "datatype": "BYTES", "shape": [-1]}])
    check(f"GET {path}/ready", curl(f"{path}/ready"), (200, {"ready": True}))
    code, answer = curl(f"{path}/infer", "-d", json.dumps({
        "id": "mine", "parameters": {}, "outputs": [{"name": "probability"}],
        "inputs": [{"name": "id", "datatype": "BYTES", "shape": [2, 1], "data": [[known], ["nobody"]]}]}))
    check(f"POST {path}/infer", (code, answer["id"], answer["model_version"], answer["outputs"][0]["data"][1]),
          (200, "mine", "1", None))
    close("its value", answer["outputs"][0]["data"][0])
code, answer = curl(f"/v2/models/{model}/versions/2")
check("an error", (code, list(answer)), (404, ["error"]))
