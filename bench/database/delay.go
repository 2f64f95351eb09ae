package database

import (
	"net"
	"strconv"
	"time"
)

// Delay starts a proxy in front of the server that delays the bytes in each direction by at least the time
// by. Connections with the returned options use the proxy. stop makes the proxy accept no more connections;
// open ones continue.
func (d *Database) Delay(by time.Duration) (options []string, stop func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", d.SocketPath())
			if err != nil {
				_ = client.Close()
				continue
			}
			go passOn(client, server, by)
			go passOn(server, client, by)
		}
	}()
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	return []string{"host", "127.0.0.1", "port", port}, listener.Close, nil
}

// delayed is a piece of a stream, and the time at which it is passed on.
type delayed struct {
	bytes []byte
	at    time.Time
}

// passOn copies a stream and delays each piece. At the end of the stream, it closes both connections.
func passOn(from, to net.Conn, by time.Duration) {
	pieces := make(chan delayed, 1<<12)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, 16<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				pieces <- delayed{buffer[:n], time.Now().Add(by)}
			}
			if err != nil {
				return
			}
		}
	}()
	defer from.Close()
	defer to.Close()
	for piece := range pieces {
		time.Sleep(time.Until(piece.at))
		if _, err := to.Write(piece.bytes); err != nil {
			_ = from.Close()
			break
		}
	}
	for range pieces { // let the reader end
	}
}
