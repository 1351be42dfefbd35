"""Makes `*_pb2.py` and `*_pb2.pyi` from the .proto files of this folder: `python -m pulsar_proto.pb.generate`.

Needs the `dev` extra (grpcio-tools, mypy-protobuf). The results are committed, so that users need neither; a test
compares their descriptors with what the .proto files say.
"""

from pathlib import Path

PB_DIR = Path(__file__).resolve().parent
ROOT = PB_DIR.parent.parent


def proto_files() -> list[str]:
    """Names relative to the repository's root: they are the files' names in protobuf's descriptor pool."""
    return sorted(str(path.relative_to(ROOT)) for path in PB_DIR.glob("*.proto"))


def compile_descriptors(out: Path) -> None:
    """Writes a FileDescriptorSet of all .proto files, for the test that compares it with the generated modules."""
    _protoc(f"--descriptor_set_out={out}")


def main() -> None:
    _protoc(f"--python_out={ROOT}", f"--mypy_out=quiet:{ROOT}")


def _protoc(*options: str) -> None:
    from grpc_tools import protoc

    status = protoc.main(["protoc", f"-I{ROOT}", *options, *proto_files()])
    if status != 0:
        raise SystemExit(f"protoc failed with {status}")


if __name__ == "__main__":
    main()
