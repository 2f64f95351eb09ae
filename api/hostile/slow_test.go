package hostile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowAttack attacks a server with many clients that request long answers but do not read them, and
// with clients whose request bodies need far more memory once decoded. At the same time, writers
// post records.
type slowAttack struct {
	server  *process
	targets []string // complete requests, one for each kind of answer that can be long
	swollen []string // complete requests whose bodies need far more memory once decoded
	stop    chan struct{}
	running sync.WaitGroup

	written  atomic.Int64 // number of records that writers have posted
	failed   atomic.Value // why a writer was refused, as a string
	statuses sync.Map     // number of answers to slow clients by status; maps int to *atomic.Int64
}

// Loopback addresses; on Linux, all of 127.0.0.0/8 is loopback. The slow readers use several
// addresses, none of which is the address of the writers.
const (
	writersAddress = "127.0.0.1"
	readersNetwork = "127.0.1."
	readersInTurn  = 2 // number of addresses that the slow readers use
)

// Clients that do not read the answers they request cannot make the server exceed its memory limits
// or stop writes. If COLOPHON_HOSTILE is set, the test is as large as the documented campaign and
// logs the speed of writes with and without slow readers.
func TestSlowReadersHoldLittle(t *testing.T) {
	if os.Getenv("COLOPHON_HOSTILE") != "" {
		slowAndLarge(t)
		return
	}
	const answers, bodies = 48 << 20, 32 << 20
	server := startServerIn(t, t.TempDir(), nil, []string{"GOMEMLIMIT=192MiB"}, "--max-body", strconv.Itoa(largeBody/2), "--max-line", strconv.Itoa(largeBody/2),
		"--max-answer-memory", strconv.Itoa(answers), "--max-body-memory", strconv.Itoa(bodies), "--max-wait", "100ms")
	s := newSlowAttack(t, server, largeBody/2)
	for i := range 4 * len(s.targets) {
		s.reader(s.targets[i%len(s.targets)], i)
	}
	for range 8 {
		s.sender()
	}
	s.awaitStalled(t, answers/8)
	end := s.write(t, 1)
	for s.written.Load() < 20 {
		require.Nil(t, s.failed.Load(), "a write was refused")
		time.Sleep(time.Millisecond)
	}
	end()
	s.end()
	if peak := server.peak(t); peak > 0 { // the limit is twice the budgets, to allow for garbage, plus the memory of an idle server
		t.Logf("%d MiB resident at most", peak>>20)
		require.Less(t, peak, int64(2*(answers+bodies)+192<<20))
	}
	server.stop(t)
}

// mostResident is the maximum resident memory, in bytes, of a server that runs with
// GOMEMLIMIT=1GiB. leastSpeed is the minimum speed of writes relative to a baseline. For slow
// readers alone, the baseline is the speed without other load. For the attack, it is the speed
// during the control.
const (
	mostResident = 13 << 30 / 10
	leastSpeed   = 0.7
	senders      = 31 // number of clients whose request bodies need far more memory once decoded
)

// slowAndLarge runs the complete campaign described in docs/performance.md (Hostile clients).
func slowAndLarge(t *testing.T) {
	requests, readers := int(number(t, "COLOPHON_HOSTILE", 0)), int(number(t, "COLOPHON_SLOW", 500))
	rounds, phase := int(number(t, "COLOPHON_ROUNDS", 6)), 10*time.Second
	contract, err := loadContract()
	require.NoError(t, err)
	server := startServerIn(t, t.TempDir(), nil, []string{"GOMEMLIMIT=1GiB"})
	attack := &attacker{contract: contract, server: server, seen: newMemory(contract), tally: newTally(), seed: number(t, "COLOPHON_HOSTILE_SEED", rand.Uint64())}
	attack.prepare(t)
	s := newSlowAttack(t, server, largeBody)
	w, refuser := startWriters(t, server.address), startRefuser(t)
	yieldCores(t)
	speedDuring := func(f func()) float64 {
		begin, before := time.Now(), w.written(t, true)
		f()
		return float64(w.written(t, false)-before) / time.Since(begin).Seconds()
	}
	speed := func() float64 { return speedDuring(func() { time.Sleep(phase) }) }
	lone := func() float64 { return speedDuring(func() { time.Sleep(phase / 4) }) }
	speed() // warm-up
	var alone, beside float64
	for round := range rounds {
		a := speed()
		for i := range readers {
			s.reader(s.targets[i%len(s.targets)], i)
		}
		s.awaitStalled(t, 16<<20)
		time.Sleep(phase) // long enough that requests are refused for lack of memory
		b := speed()
		s.end()
		t.Logf("round %d: %.0f writes/s alone, %.0f beside %d slow readers: %.2f", round+1, a, b, readers, b/a)
		alone, beside = alone+a, beside+b
	}
	t.Logf("writes beside slow readers keep %.2f of their speed; %d MiB resident at most so far", beside/alone, server.peak(t)>>20)

	// Senders keep all of the cores busy, so they take part only in the first of ten parts.
	control := &attacker{contract: contract, server: refuser, seen: attack.seen, tally: newTally(), seed: attack.seed}
	var raw, kept float64
	for part := range 10 {
		// crowd starts the slow clients. They run until s.end is called.
		crowd := func() {
			for i := range readers {
				s.reader(s.targets[i%len(s.targets)], i)
			}
			for range senders {
				if part == 0 {
					s.sender()
				}
			}
		}
		share := requests * 99 / 900
		if part == 0 {
			share = requests - 9*share
		}
		a := lone()
		crowd()
		begin, own, served := time.Now(), ownTime(), server.time()
		b := speedDuring(func() { attack.attack(share) })
		took := time.Since(begin)
		clients, cores := (ownTime()-own).Seconds()/took.Seconds(), (server.time()-served).Seconds()/took.Seconds()
		s.end()
		s.server = refuser
		crowd()
		own, begin = ownTime(), time.Now()
		var refused int64
		c := speedDuring(func() { refused = control.attackFor(took, clients) })
		controlled := time.Since(begin).Seconds()
		controlClients := (ownTime() - own).Seconds() / controlled
		s.end()
		s.server = server
		a = (a + lone()) / 2
		raw, kept = raw+b/a/10, kept+b/c/10
		t.Logf("part %d: %.0f writes/s alone, %.0f beside %.0f hostile requests/s (clients %.2f cores, server %.2f), %.0f beside %.0f/s that are refused by another process (clients %.2f cores): %.2f, of the control %.2f; %d MiB resident at most so far",
			part+1, a, b, float64(share)/took.Seconds(), clients, cores, c, float64(refused)/controlled, controlClients, b/a, b/c, server.peak(t)>>20)
	}
	t.Logf("writes beside slow readers and hostile requests keep %.2f of their speed alone, and %.2f of that in the control", raw, kept)
	s.statuses.Range(func(status, n any) bool {
		t.Logf("slow readers and senders were answered %d: %d times", status, n.(*atomic.Int64).Load())
		return true
	})
	for _, f := range attack.tally.found() {
		t.Error(f)
	}
	t.Logf("%d MiB resident at most; %d are allowed", server.peak(t)>>20, mostResident>>20)
	require.LessOrEqual(t, server.peak(t), int64(mostResident))
	require.GreaterOrEqual(t, beside/alone, leastSpeed)
	require.GreaterOrEqual(t, kept, leastSpeed)
	attack.finish(t)
}

// largeBody is the length, in bytes, of a large piece of content and of a body that needs more
// memory once decoded.
const largeBody = 8 << 20

// newSlowAttack fills a ledger so that answers are long, and prepares the requests of the slow
// clients. large is the length, in bytes, of large pieces of content and of bodies that need more
// memory once decoded.
func newSlowAttack(t *testing.T, server *process, large int) *slowAttack {
	t.Helper()
	s := &slowAttack{server: server, stop: make(chan struct{})}
	const l = "/v1/ledgers/default"
	// While the attack was being prepared, a request might have made the ledger refuse unregistered
	// sources, which the citations below use.
	server.send(t, http.MethodPut, l+"/unregistered-sources", `{"unregistered_sources":"accept"}`, http.StatusOK)
	text := strings.Repeat("x", large-64<<10)
	post := func(path, body string) uint64 {
		var receipt struct{ Seq uint64 }
		require.NoError(t, json.Unmarshal(server.send(t, http.MethodPost, l+path, body, http.StatusCreated), &receipt))
		return receipt.Seq
	}
	content := post("/ipc-records", `{"model":"m","temperature":0,"max_tokens":9,"payload":{},"output":"`+text+`"}`)
	document := post("/citation-sets", `{"subject":"large","citations":[{"source_id":"a","weight":1,"text":"`+text+`"}]}`)
	var wide strings.Builder // the citations of an event of about 60 KB
	for i := range 300 {
		fmt.Fprintf(&wide, `{"source_id":"%s%d","weight":1,"chunk_hash":"sha256:%064d"},`, strings.Repeat("s", 20), i, i)
	}
	citations := strings.TrimSuffix(wide.String(), ",")
	var last uint64
	for i := range 200 {
		last = post("/citation-sets", fmt.Sprintf(`{"subject":"wide","labels":{"step":"a"},"citations":[%s,{"source_id":"b%d","weight":0.5,"chunk_hash":"sha256:%064d"}]}`, citations, i, i))
		if i%10 == 0 {
			route := strings.TrimSuffix(strings.Repeat(`"passage of a story",`, 2000), ",")
			post("/path-fingerprints", fmt.Sprintf(`{"project":"p","build":"%d","route":[%s],"content":"c%d"}`, i, route, i))
		}
	}
	get := func(path string, header ...string) {
		s.targets = append(s.targets, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n"+strings.Join(header, "\r\n")+strings.Repeat("\r\n", min(1, len(header)))+"\r\n")
	}
	question := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	}
	for _, path := range []string{
		"/records?events=true&limit=1000", "/records?events=true&limit=1000&proofs=true", "/records?kind=citation_set&clock=occurred&events=true&limit=1000",
		"/events?limit=1000", fmt.Sprintf("/records/%d/content/output", content), fmt.Sprintf("/citation-sets/%d/document", document),
		fmt.Sprintf("/citation-sets/%d/document", last), fmt.Sprintf("/records/%d", last), fmt.Sprintf("/records/%d/receipt", last),
		fmt.Sprintf("/records/%d/proof?citation=1", last), "/citation-sets/drift?subject=wide&limit=1000", "/citation-sets/conflicts?limit=1000",
		fmt.Sprintf("/citation-sets/by-chunk/sha256:%064d?limit=1000", 1), "/citation-sets/by-source/" + strings.Repeat("s", 20) + "1?limit=1000",
		"/paths/p?limit=1000", "/paths/p/builds", "/log/tile/entries/000.p/200", "/log/tile/0/000.p/200", "/sources", "/producers", "/stats",
	} {
		get(l + path)
	}
	get(l+"/log/tile/entries/000.p/200", "Accept-Encoding: gzip")
	get(l+"/events?from=0", "Accept: text/event-stream")
	get("/metrics")
	get("/openapi.yaml")
	get("/docs")
	s.targets = append(s.targets,
		question(fmt.Sprintf("%s/citation-sets/%d/pinned-retrieval", l, last), `{"top_k":1000,"sources":[{"id":"a","chunks":[{"text":"`+text[:len(text)/2]+`"}]}]}`),
		fmt.Sprintf("POST %s/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: 100000000\r\n\r\n%s", l, strings.Repeat("{bad}\n", 20_000)))
	fill := func(piece string, around string) string {
		return strings.Replace(around, "%", strings.TrimSuffix(strings.Repeat(piece, (large-4096)/len(piece)), ","), 1)
	}
	for _, body := range []string{
		fill(`\n`, `{"project":"p","route":["a"],"content":"%"}`), fill(`"",`, `{"project":"p","route":[%]}`),
		fill(`[],`, `{"project":"p","route":["a"],"labels":[%]}`), fill(`[[a]]`, `{"project":"p","route":["a"],"content":"%"}`),
	} {
		s.swollen = append(s.swollen, question("/v1/compute/path_fingerprint", body), question(l+"/path-fingerprints", body))
	}
	for _, body := range []string{fill(`0,`, `{"payload":{"a":[%]}}`), fill(`{},`, `{"payload":{"a":[%]}}`), fill("\n", `{"payload":%{}}`)} {
		s.swollen = append(s.swollen, question("/v1/compute/ipc_record", body), question(l+"/ipc-records", body))
	}
	s.swollen = append(s.swollen, question("/v1/compute/run_dag", fill("\u0301\u0316", `{"question":"%"}`)),
		question("/v1/compute/citation_set", fill(`{},`, `{"subject":"s","citations":[%]}`)),
		question(fmt.Sprintf("%s/citation-sets/%d/pinned-retrieval", l, last), fill(`{},`, `{"top_k":1000000,"sources":[{"id":"`+strings.Repeat("i", 1000)+`","chunks":[%]}]}`)),
		question(l+"/redactions", fill(`1,`, `{"reason":"r","seqs":[%]}`)))
	return s
}

// dialFrom connects to the server from the given loopback address, with a small receive buffer.
func (s *slowAttack) dialFrom(address string) (net.Conn, error) {
	d := net.Dialer{Timeout: patience, Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	if ip := net.ParseIP(address); ip != nil {
		d.LocalAddr = &net.TCPAddr{IP: ip}
	}
	conn, err := d.Dial("tcp", s.server.address)
	if err != nil { // some systems have only one loopback address
		d.LocalAddr = nil
		return d.Dial("tcp", s.server.address)
	}
	return conn, nil
}

// reader sends a request again and again, and reads each answer very slowly.
func (s *slowAttack) reader(request string, i int) {
	address := readersNetwork + strconv.Itoa(1+i%readersInTurn)
	s.client(func(conn net.Conn) bool {
		if _, err := io.WriteString(conn, request); err != nil {
			return false
		}
		piece := make([]byte, 512)
		first := true
		for {
			n, err := conn.Read(piece)
			if err != nil {
				return false
			}
			if first {
				s.count(piece[:n])
				first = false
			}
			if !s.pause(time.Second) {
				return false
			}
		}
	}, address)
}

// sender sends bodies that need far more memory once decoded, and reads only the first bytes of each
// response.
func (s *slowAttack) sender() {
	i := rand.IntN(1000)
	s.client(func(conn net.Conn) bool {
		i++
		_, _ = io.WriteString(conn, s.swollen[i%len(s.swollen)]) // an error means that the server refused the rest of the body
		piece := make([]byte, 512)
		if n, err := conn.Read(piece); err == nil {
			s.count(piece[:n])
		}
		return false // use a new connection for the next body
	}, readersNetwork+strconv.Itoa(1+i%readersInTurn))
}

// count adds the response that starts with begin to the statistics, by its status.
func (s *slowAttack) count(begin []byte) {
	if fields := bytes.Fields(begin); len(fields) > 1 && bytes.HasPrefix(begin, []byte("HTTP/1.1 ")) {
		status, _ := strconv.Atoi(string(fields[1]))
		n, _ := s.statuses.LoadOrStore(status, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	}
}

// client opens one connection after another from address, and passes each to use, until the attack
// ends. As long as use returns true, it is called again with the same connection.
func (s *slowAttack) client(use func(net.Conn) (again bool), address string) {
	over := closing(s.stop)
	s.running.Go(func() {
		for s.pause(10 * time.Millisecond) {
			conn, err := s.dialFrom(address)
			if err != nil {
				continue // the server might have refused the connection
			}
			ended := context.AfterFunc(over, func() { _ = conn.Close() })
			for use(conn) {
				continue
			}
			ended()
			_ = conn.Close()
		}
	})
}

// closing returns a context that is cancelled when stop is closed.
func closing(stop chan struct{}) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-stop; cancel() }()
	return ctx
}

// pause waits for the duration d. It returns false if the attack ends before that.
func (s *slowAttack) pause(d time.Duration) bool {
	select {
	case <-s.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// end stops all clients except the writers, and waits for them.
func (s *slowAttack) end() {
	close(s.stop)
	s.running.Wait()
	s.stop = make(chan struct{})
}

// awaitStalled waits until the server holds at least held bytes of answers that clients have not
// read.
func (s *slowAttack) awaitStalled(t *testing.T, held float64) {
	t.Helper()
	await(t, func() string {
		if now := gauge(s.server.families(t)["colophon_answer_memory_bytes"]); now < held {
			time.Sleep(10 * time.Millisecond)
			return fmt.Sprintf("slow readers hold %.0f bytes", now)
		}
		return ""
	})
}

// write starts the given number of writers, which post records until end is called.
func (s *slowAttack) write(t *testing.T, writers int) (end func()) {
	t.Helper()
	stop := make(chan struct{})
	var running sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}}
	for range writers {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				body := fmt.Sprintf(`{"model":"m","temperature":0,"max_tokens":9,"payload":{"n":%d},"output":"an answer"}`, s.written.Load())
				response, err := client.Post("http://"+s.server.address+"/v1/ledgers/default/ipc-records", "application/json", strings.NewReader(body))
				if err != nil {
					s.failed.Store(err.Error())
					return
				}
				text, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusCreated {
					s.failed.Store(string(text))
					continue
				}
				s.written.Add(1)
			}
		})
	}
	return func() {
		close(stop)
		running.Wait()
		client.CloseIdleConnections()
	}
}

// peak returns the maximum resident memory that the server has used so far, in bytes. It returns 0
// if the system does not report it.
func (p *process) peak(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			require.NoError(t, err)
			return kib << 10
		}
	}
	return 0
}
