//! A way to the store that can be blocked: connections are accepted and nothing comes back; what was sent meanwhile
//! arrives when the way is free again.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

/// A proxy between a port and a socket. Its threads end with the test's process.
pub(crate) struct Hole {
    pub(crate) address: SocketAddr,
    gate: Arc<Gate>,
}

impl Hole {
    pub(crate) fn before(socket: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let hole = Self { address: listener.local_addr().unwrap(), gate: Arc::default() };
        let (gate, socket) = (Arc::clone(&hole.gate), socket.to_owned());
        thread::spawn(move || accept(&listener, &gate, &socket));
        hole
    }

    pub(crate) fn shut(&self) {
        *self.gate.is_shut.lock().unwrap() = true;
    }

    pub(crate) fn open(&self) {
        *self.gate.is_shut.lock().unwrap() = false;
        self.gate.opened.notify_all();
    }
}

fn accept(listener: &TcpListener, gate: &Arc<Gate>, socket: &Path) {
    for near in listener.incoming() {
        let (Ok(near), Ok(far)) = (near, UnixStream::connect(socket)) else { continue };
        let (Ok(near_too), Ok(far_too)) = (near.try_clone(), far.try_clone()) else { continue };
        let (there, back) = (Arc::clone(gate), Arc::clone(gate));
        thread::spawn(move || {
            pass_on(&near, &far, &there);
            let _ = far.shutdown(Shutdown::Both);
        });
        thread::spawn(move || {
            pass_on(&far_too, &near_too, &back);
            let _ = near_too.shutdown(Shutdown::Both);
        });
    }
}

/// Until one side ends.
fn pass_on<'a, From, To>(mut from: &'a From, mut to: &'a To, gate: &Gate)
where
    &'a From: Read,
    &'a To: Write,
{
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let is_open = gate.opened.wait_while(gate.is_shut.lock().unwrap(), |is_shut| *is_shut);
        drop(is_open.unwrap());
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}
