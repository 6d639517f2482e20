"""What the engine says that it will do, before it does it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Preview:
    """What the engine will do, known before its first event (`Preview` in `preview.rs`)."""

    npus: int
    simulated_npus: int
    simulated_links: int
    unfolded: str | None
    """Why the run will not be folded, if it will not."""
    steps: int
    slices: int | None
    """Of its pipelines, if it has any, and all have as many."""
    chunks: int
    """Chunks of all collectives."""
    chunk_bytes: int
    """Bytes of the largest chunk."""
    messages_per_npu: int
    """What the first NPU that takes part sends, as are its bytes."""
    bytes_sent_per_npu: int
    gradient_bytes: int
    """All all-reduces of an iteration: in training, the gradients that an NPU holds."""
    messages: int
    """Messages of all simulated NPUs."""
    bytes: int
    payload_bytes: int
    """Payload of the job in the messages of all NPUs of the machine."""
    message_hops: int
    """Messages times the links that they cross."""
    packets: int
    """Their packets; without packets, messages."""
    packet_hops: int
    byte_hops: int
    flow_message_hops: int
    """Of `message_hops`, those of messages that are flows in a network of packets, as are `flow_byte_hops`."""
    flow_byte_hops: int
    kernels: int
    """Compute nodes of all iterations on all simulated NPUs."""
    memory_bytes: int
    """What the engine expects to take."""
    lower_bound_ps: int
    busy_ps: int
    """For how long it keeps the links of the busiest class busy, if all links of the class are loaded alike."""
    offloaded: str | None
    """Of switch offload: what is done in switches, and what is left to the NPUs."""
    warnings: list[str]
