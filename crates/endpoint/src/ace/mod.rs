//! The accelerator collectives engine: ACE paper, section IV.
//!
//! ```text
//!  main memory ──TX DMA──▶ ┌───────────── SRAM ─────────────┐ ──RX DMA──▶ main memory
//!                          │ partition 0 │ 1 │ ... │terminal│
//!                          └──┬───────────────────────▲─────┘
//!               read port     ▼                       │ write port
//!   input buffers ──▶ FSM of the phase: ALU ──────────┴──▶ port buffer ──▶ link
//! ```
//!
//! # A chunk's way
//! 1. **Load.** When partition 0 has room the TX DMA reads the chunk through memory bandwidth and bus.
//! 2. **Queue.** A loaded chunk waits for its phase. Chunks begin a phase in their global order, each when
//!    its FSM (chunk number modulo the FSMs of the phase) is free ([`phases`]).
//! 3. **Run.** The FSM walks the ring program in groups of messages ([`own_messages`], [`around_rings`]): a block larger
//!    than a message is cut into several, and the groups follow one another (section IV-C, footnote 3).
//!    Work is done packet by packet: a packet is reduced and forwarded as it arrives. Room for the
//!    results is taken in the next partition when the phase begins, in an all-reduce from its second
//!    half on, as it becomes free; the room of a message in the own partition is given back when it has
//!    been read.
//! 4. **Drain.** After the last phase the RX DMA writes the terminal partition's data back.
//!
//! The DMAs stream a chunk over memory and bus at once. With LogGP buses ([`crate::loggp`]; first version of the paper,
//! sections 4.2 and 5) it goes as a train of messages over one bus and then over the other; nothing else crosses them.
//!
//! # All-to-all
//! Section V: direct, everybody to everybody, in a single phase that all FSMs can run ([`all_to_all`]). Where only
//! neighbours are connected the engines forward each other's packets ([`transit`]). Such all-to-alls may run beside
//! rings ([`side_by_side`]). Others, ring by ring ([`phase_messages`]) or direct along one of several dimensions
//! ([`direct`]), have phases like an all-reduce (first version of the paper, section 5).
//!
//! # Readings of the paper
//! * An FSM is free for the next chunk of its queue once it has issued the last *send* of the current
//!   one. What still arrives for that chunk is reduced or stored as it comes. (With an FSM held until
//!   the last arrival, 4 FSMs on a ring of four 25 GB/s links cannot pass 80 % of the link, and the
//!   published 90 % of ideal would be out of reach for any memory bandwidth.)
//! * A chunk holds room in a partition only while its data is there. (If it reserved its place in the next
//!   partition when a phase begins and kept its own until the phase ends, five chunks would share the
//!   vertical and the horizontal phase of a 4x4x4 torus with 4 MB of SRAM, and ACE would reach less
//!   than half of the ideal bandwidth, where the paper has 90 %.)
//! * Chunks begin a phase, and take room in a partition, in the same order on every NPU. Without that, NPUs
//!   could give the last room to different chunks and wait for each other for ever. A chunk may store as
//!   soon as a packet fits, before it has room for all its results: no later chunk takes room until
//!   it has, and the earlier ones, which hold the rest, go on without it. (If a chunk had to find room
//!   for everything at once, what is left of a partition would lie idle while chunks wait: five
//!   chunks fit into the partitions of a 4x4x4 torus. Chunks that arrive in bunches would then
//!   stay bunched, and faster memory would slow the run by 2.5 %.)
//! * Around a ring one FSM at a time sends messages of its own through a port; packets that are forwarded go in
//!   between. In relays and direct phases, where most or all of what is sent is an FSM's own, all may: one FSM reads 64 B
//!   per cycle, which at the 700 MHz of the first version is less than half of a switch's links.
//! * Input buffers hold all packets whose chunk may still have to wait for something ([`input_buffer`]). For that to be a
//!   number, an FSM takes up the next chunk only while no more than one that it took up before is still receiving
//!   ([`fsm_pool`]). On longer rings that is so of itself; on a ring of two, and where everybody sends to everybody, an NPU
//!   would otherwise run ahead of one that is late as far as its SRAM allows.
//! * A packet occupies the read port of a bank (if local data is read), an ALU (if it is reduced) and
//!   the write port of a bank (if it is kept), each for `length / 64 B` cycles, all at once; if one is
//!   busy it waits for the latest. When all are idle the packet streams through while it arrives
//!   and adds no latency of its own. Data is interleaved over the banks, so that streams take the
//!   banks in rotation and find a port as long as fewer streams than banks are active.
//! * The DMAs have SRAM ports of their own: with shared ports a 4x2x2 torus could not reach the
//!   published 90 % of ideal (reads alone would need 1.6 times what four banks give).
//! * SRAM is divided in proportion to (bandwidth of the phase's links) x (bytes a chunk brings into the
//!   phase), the terminal partition equal to the last (section IV-I).
//!
//! Left out: command decoding, interrupt latency, address generation.
//!
//! # Parts
//! [`Ace`] composes them; what they do, they do without knowing of programs or plans.
//!
//! | part | has |
//! |---|---|
//! | [`dma`] | loads and stores between main memory, bus and SRAM |
//! | [`sram`] | partitions, and who has room in them ([`sram_division`] says how large they are) |
//! | [`banks`] | ports of banks, and ALUs |
//! | [`fsm_pool`] | FSMs ([`fsm_split`] says how many a phase has) |
//! | [`chunk_order`] | whose turn it is |
//! | [`ports`] | port buffers, and what waits for space in them |
//! | [`arrived_packets`] | what still occupies an input buffer |
//! | [`transit_pools`] | packets of all-to-alls that are on their way |
//!
//! What a chunk does is a record ([`progress`], [`run`]); what moves it on are methods of [`Ace`], in files by subject.

mod all_to_all;
mod around_rings;
mod arrived_packets;
mod banks;
mod chunk_order;
mod config;
mod direct;
mod dma;
mod endpoint;
mod engine;
mod event;
mod fsm_pool;
mod fsm_split;
mod handling;
mod hardware;
mod input_buffer;
mod levels;
mod message_tag;
mod own_messages;
mod packet;
mod phase_messages;
mod phases;
mod port_service;
mod ports;
mod progress;
mod receipts;
mod run;
mod side_by_side;
mod sram;
mod sram_division;
mod transit;
mod transit_pools;
mod waits;

pub use config::{AceConfig, AceError, FsmSplit, Transit};
pub use engine::Ace;
pub use event::AceEvent;
pub use hardware::AceHardware;
