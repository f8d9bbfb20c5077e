from collections.abc import Callable

class WordTable:
    runs: int
    passed: int
    def __init__(self, analyse: Callable[[bytes], tuple[bytes, bytes]], letters: bytes, most: int) -> None: ...
    def words(self, text: str) -> tuple[str, str]: ...
