//! What runs in two guests to try the network between them.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

pub const ECHO: &str = "peer-echo";
pub const ASK: &str = "peer-ask";

const PORT: u16 = 5000;
const DATAGRAMS: [usize; 6] = [1, 1000, 1472, 9000, 32_768, 65_507];
/// How often a datagram is sent before it counts as one that does not get through.
const TRIES: u32 = 5;

/// Echoes one TCP connection and, while it lives, datagrams.
pub fn echo() -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let stream = TcpListener::bind(("0.0.0.0", PORT)).map_err(failed)?;
    let datagrams = UdpSocket::bind(("0.0.0.0", PORT)).map_err(failed)?;
    println!("listening");
    std::thread::spawn(move || -> std::io::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let (size, from) = datagrams.recv_from(&mut buffer)?;
            datagrams.send_to(&buffer[..size], from)?;
        }
    });
    let (mut peer, _) = stream.accept().map_err(failed)?;
    let mut back = peer.try_clone().map_err(failed)?;
    std::io::copy(&mut peer, &mut back).map(drop).map_err(failed)
}

/// Asks the echo on that host.
pub fn ask(words: &[OsString]) -> Result<(), String> {
    let host = words[0].to_string_lossy();
    let failed = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect((&*host, PORT)).map_err(failed)?;

    let socket = UdpSocket::bind(("0.0.0.0", 0)).map_err(failed)?;
    socket.connect((&*host, PORT)).map_err(failed)?;
    socket.set_read_timeout(Some(Duration::from_secs(2))).map_err(failed)?;
    let mut buffer = vec![0; 1 << 16];
    for (turn, size) in DATAGRAMS.iter().cycle().take(120).enumerate() {
        let sent: Vec<u8> = (0..*size).map(|at| (at * 7 + turn) as u8).collect();
        // A datagram may be lost, and an echo may come late; one must come back whole.
        let mut echoed = false;
        for _ in 0..TRIES {
            socket.send(&sent).map_err(failed)?;
            while !echoed {
                let Ok(got) = socket.recv(&mut buffer) else { break };
                echoed = buffer[..got] == sent;
            }
            if echoed {
                break;
            }
        }
        if !echoed {
            return Err(format!("datagram {turn} of {size} bytes never came back as it was sent"));
        }
    }

    let sent: Vec<u8> = (0..crate::STREAM).map(|at| (at ^ (at >> 8)) as u8).collect();
    let mut writer = stream.try_clone().map_err(failed)?;
    let copy = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&copy).and_then(|()| writer.shutdown(std::net::Shutdown::Write))
    });
    let mut got = Vec::new();
    stream.read_to_end(&mut got).map_err(failed)?;
    writing.join().map_err(|_| "the writer panicked")?.map_err(failed)?;
    if got == sent {
        Ok(())
    } else {
        Err(format!("{} bytes came back as {} others", sent.len(), got.len()))
    }
}
