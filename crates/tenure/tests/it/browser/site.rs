//! Somebody else's page: a server that answers everything with one document.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Listens for as long as the process of the test lives.
pub(crate) struct Site {
    address: SocketAddr,
}

impl Site {
    pub(crate) fn with(document: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let document = document.to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let document = document.clone();
                std::thread::spawn(move || drop(answer(stream, &document)));
            }
        });
        Self { address }
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }
}

fn answer(mut stream: TcpStream, document: &str) -> std::io::Result<()> {
    let head = BufReader::new(&stream).lines().map_while(Result::ok);
    let _ = head.take_while(|line| !line.is_empty()).count();
    let length = document.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length: {length}"
    );
    stream.write_all(format!("{head}\r\n\r\n{document}").as_bytes())
}
