package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"colophon/client/wire"
	"colophon/internal/remote"
)

// processesKey is the key under which a script's environment holds its background processes.
type processesKey struct{}

// processes holds everything that a script runs in the background. It is used only by the script's
// goroutine.
type processes struct {
	servers  map[string]*serverProcess
	feeds    map[string]*feedProcess
	followed map[string]<-chan error // results of follow, keyed by the name of its output file
}

func newProcesses() *processes {
	return &processes{servers: make(map[string]*serverProcess), feeds: make(map[string]*feedProcess), followed: make(map[string]<-chan error)}
}

func processesOf(ts *testscript.TestScript) *processes {
	return ts.Value(processesKey{}).(*processes)
}

// killAll kills all processes that the script has left running.
func (p *processes) killAll() {
	for _, s := range p.servers {
		if s.command != nil {
			_ = s.command.Process.Kill()
			_ = s.command.Wait()
		}
	}
	for _, f := range p.feeds {
		_ = f.command.Process.Kill()
		_ = f.stdin.Close()
		_ = f.command.Wait()
	}
}

// serverProcess is a server that a script has started. After a restart, the server has the same
// address.
type serverProcess struct {
	command *exec.Cmd // nil while the server is not running
	address string
}

// background returns a command that runs this program in the script's folder with the script's
// environment. The caller must start it.
func background(ts *testscript.TestScript, args ...string) *exec.Cmd {
	command := exec.Command("colophon", args...)
	command.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GORACE", "COLOPHON_SERVER", "COLOPHON_STORE", "COLOPHON_SIGNING_KEY_DEFAULT"} {
		command.Env = append(command.Env, name+"="+ts.Getenv(name))
	}
	return command
}

// scriptServer controls servers:
//
//	server start NAME DATA FLAG...   returns once the server is up; sets COLOPHON_SERVER, ADDRESS
//	                                 and KEY, and METRICS if /metrics has its own address
//	server kill NAME                 kill -9
//	server stop NAME                 SIGTERM; the server must exit with code 0
//
// The server's log is written to the file NAME.log, and the text that the server prints when it
// starts is written to NAME.out.
func scriptServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: server start|kill|stop NAME ...")
	}
	all := processesOf(ts)
	s := all.servers[args[1]]
	if s == nil {
		s = &serverProcess{address: "127.0.0.1:0"}
		all.servers[args[1]] = s
	}
	switch args[0] {
	case "start":
		s.start(ts, args[1], args[2], args[3:])
	case "kill":
		ts.Check(s.command.Process.Kill())
		if s.command.Wait() == nil {
			ts.Fatalf("the server exited before it was killed")
		}
		s.command = nil
	case "stop":
		ts.Check(s.command.Process.Signal(syscall.SIGTERM))
		ts.Check(s.command.Wait())
		s.command = nil
	default:
		ts.Fatalf("server %s: unknown", args[0])
	}
}

func (s *serverProcess) start(ts *testscript.TestScript, name, data string, flags []string) {
	log, err := os.OpenFile(ts.MkAbs(name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	defer log.Close()
	command := background(ts, append([]string{"serve", "--data", data, "--listen", s.address}, flags...)...)
	command.Stderr = log
	banner, output, err := os.Pipe()
	ts.Check(err)
	defer output.Close()
	command.Stdout = output
	ts.Check(command.Start())
	s.command = command
	ts.Check(output.Close())
	found := make(map[string]string)
	lines := bufio.NewScanner(banner)
	var printed strings.Builder
	for found["key"] == "" && lines.Scan() {
		printed.WriteString(lines.Text() + "\n")
		name, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), "  ")
		found[name[strings.LastIndex(name, " ")+1:]] = strings.TrimSpace(value)
	}
	if found["key"] == "" {
		ts.Fatalf("no verifier key in the server's output; its log:\n%s", ts.ReadFile(name+".log"))
	}
	writeFile(ts, name+".out", []byte(printed.String()))
	go func() { // drain the output, so that the server never blocks on writing it
		_, _ = io.Copy(io.Discard, banner)
		_ = banner.Close()
	}()
	server, err := url.Parse(found["server"])
	ts.Check(err)
	s.address = server.Host
	ts.Setenv("COLOPHON_SERVER", server.String())
	ts.Setenv("ADDRESS", s.address)
	ts.Setenv("KEY", found["key"])
	ts.Setenv("METRICS", strings.TrimSuffix(found["metrics"], "/metrics"))
}

// feedProcess is an import command whose input the script sends in two parts.
type feedProcess struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	output  *bytes.Buffer
	rest    []byte     // lines that the import has not yet received
	given   chan error // receives the error from writing the first lines, or nil
}

// scriptFeed imports a file in two parts:
//
//	feed start NAME FILE LINES FLAG...   starts an import in the background and sends it the first lines
//	feed rest NAME CODE                  sends the rest; the import must exit with CODE
//	feed end NAME CODE                   closes the input; the import must exit with CODE
//	feed interrupt NAME CODE             sends SIGINT; the import must exit with CODE
//
// The output of the import is written to the file NAME.out.
func scriptFeed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: feed start|rest|end|interrupt NAME ...")
	}
	all := processesOf(ts)
	if args[0] == "start" {
		lines, err := strconv.Atoi(args[3])
		ts.Check(err)
		all.feeds[args[1]] = startFeed(ts, []byte(ts.ReadFile(args[2])), lines, args[4:])
		return
	}
	f := all.feeds[args[1]]
	delete(all.feeds, args[1])
	if err := <-f.given; err == nil && args[0] == "rest" {
		_, err := f.stdin.Write(f.rest)
		ts.Check(err)
	}
	if args[0] == "interrupt" {
		ts.Check(f.command.Process.Signal(os.Interrupt))
	} else {
		_ = f.stdin.Close()
	}
	_ = f.command.Wait() // the exit code is checked below
	ts.Check(os.WriteFile(ts.MkAbs(args[1]+".out"), f.output.Bytes(), 0o600))
	if code := strconv.Itoa(f.command.ProcessState.ExitCode()); code != args[2] {
		ts.Fatalf("exit code %s, want %s; output:\n%s", code, args[2], f.output)
	}
}

func startFeed(ts *testscript.TestScript, all []byte, lines int, flags []string) *feedProcess {
	end := 0
	for range lines {
		end += bytes.IndexByte(all[end:], '\n') + 1
	}
	f := &feedProcess{
		command: background(ts, append(append([]string{"import"}, flags...), "-")...),
		output:  new(bytes.Buffer), rest: all[end:], given: make(chan error, 1),
	}
	f.command.Stdout, f.command.Stderr = f.output, f.output
	var err error
	f.stdin, err = f.command.StdinPipe()
	ts.Check(err)
	ts.Check(f.command.Start())
	go func() {
		_, err := f.stdin.Write(all[:end])
		f.given <- err
	}()
	return f
}

// request sends a request to the script's server or, if path is a whole URL, to that URL.
func request(ts *testscript.TestScript, method, path string, header http.Header, body io.Reader) (status int, answer []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if strings.HasPrefix(path, "/") {
		path = ts.Getenv("COLOPHON_SERVER") + path
	}
	r, err := http.NewRequestWithContext(ctx, method, path, body)
	ts.Check(err)
	r.Header, r.Host = header, header.Get("Host")
	response, err := http.DefaultClient.Do(r)
	ts.Check(err)
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	ts.Check(err)
	return response.StatusCode, answer
}

// scriptHTTP sends a request, requires the status, and writes the response body to a file:
//
//	http STATUS METHOD PATH OUT [BODY [NAME:VALUE]...]
func scriptHTTP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: http STATUS METHOD PATH OUT [BODY [NAME:VALUE]...]")
	}
	var body io.Reader
	header := http.Header{"Content-Type": {"application/json"}}
	if len(args) > 4 {
		body = strings.NewReader(ts.ReadFile(args[4]))
		for _, field := range args[5:] {
			name, value, _ := strings.Cut(field, ":")
			header.Set(name, value)
		}
	}
	status, answer := request(ts, args[1], args[2], header, body)
	if strconv.Itoa(status) != args[0] {
		ts.Fatalf("status %d, want %s: %s", status, args[0], answer)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[3]), answer, 0o600))
}

// treeSize returns the tree size that the script's server reports for a ledger.
func treeSize(ts *testscript.TestScript, ledger string) uint64 {
	_, answer := request(ts, http.MethodGet, remote.LedgerPath(ledger), http.Header{}, nil)
	var info wire.LedgerDescription
	ts.Check(json.Unmarshal(answer, &info))
	return info.TreeSize
}

// scriptSize requires that a ledger has the given size. Usage: size LEDGER EVENTS.
func scriptSize(ts *testscript.TestScript, _ bool, args []string) {
	if got := fmt.Sprint(treeSize(ts, args[0])); got != args[1] {
		ts.Fatalf("ledger %s has %s events, want %s", args[0], got, args[1])
	}
}

// scriptWaitSize waits until a ledger has at least the given number of events. Usage: wait-size
// LEDGER EVENTS.
func scriptWaitSize(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.ParseUint(args[1], 10, 64)
	ts.Check(err)
	for treeSize(ts, args[0]) < want {
		time.Sleep(time.Millisecond)
	}
}
