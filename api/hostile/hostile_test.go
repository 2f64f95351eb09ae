package hostile_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clients is the number of clients that attack at the same time.
const clients = 8

type attacker struct {
	contract    *contract
	server      *process
	credentials *credentials // nil if the server requires no authentication
	seen        *memory
	tally       *tally
	seed        uint64
	round       uint64 // number of generators created so far; it gives each generator its own seed
}

// number returns the number in the environment variable with the given name, or fallback if the
// variable is not set.
func number(t *testing.T, name string, fallback uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

func TestServerWithstandsHostileRequests(t *testing.T) {
	t.Run("without authentication", func(t *testing.T) { attackServer(t, t.TempDir(), nil) })
	t.Run("with tokens", func(t *testing.T) {
		data := t.TempDir()
		attackServer(t, data, makeTokens(t, data))
	})
}

// attackServer starts a server with the given data folder, and attacks it.
func attackServer(t *testing.T, data string, credentials *credentials) {
	contract, err := loadContract()
	require.NoError(t, err)
	s := &attacker{
		contract: contract, server: startServer(t, data, credentials), credentials: credentials,
		seen: newMemory(contract), tally: newTally(), seed: number(t, "COLOPHON_HOSTILE_SEED", rand.Uint64()),
	}
	requests := int(number(t, "COLOPHON_HOSTILE", 1500))
	t.Logf("COLOPHON_HOSTILE=%d COLOPHON_HOSTILE_SEED=%d", requests, s.seed)
	s.prepare(t)

	begin := time.Now()
	s.attack(requests / 4)
	warm := s.server.measure(t)
	t.Logf("after the warm-up: %v", warm)
	s.attack(requests - requests/4)
	t.Logf("%.0f requests/s", float64(requests)/time.Since(begin).Seconds())
	t.Logf("outcomes of the requests:\n%s", s.tally.report())
	s.settle(t, warm)
	for _, f := range s.tally.found() {
		t.Error(f)
	}
	s.finish(t)
}

// recording lists the operations that add a record.
var recording = []string{"postIPCRecord", "postRunDAG", "postCitationSet", "postPathFingerprint"}

// answered is a run-DAG that matches the lookup in the contract's example.
var answered = fmt.Sprintf(`{"question":"Who keeps the lighthouse?","inputs":{"context_root":%q,"conversation_hash":%q,"answer_text":"Ana.",`+
	`"audit_mode":"STRICT","verifier_method":"exact_quote","n_quotes":1,"n_verified":1,"sources":[]},"cache_dimensions":{"source_root":%q,`+
	`"question_hash":"04cbfc2c150a34bae31f1ccbcd0151c3be1406a027920d29ff21bcf914ea977b","model_profile_hash":%q,"conversation_hash":%q,`+
	`"governance_policy_hash":%q,"schema_version":"v9.8.0","canonicalization_version":"norm-v1","chunking_version":"tok-512-v1"}}`,
	strings.Repeat("4", 64), strings.Repeat("2", 64), strings.Repeat("6", 64), strings.Repeat("1", 64), strings.Repeat("2", 64), strings.Repeat("3", 64))

// prepare creates the ledgers, records every example of the contract in each of them, and repeats
// every operation until it has succeeded once. This allows the random requests that follow to reach
// as much of the server as possible.
func (s *attacker) prepare(t *testing.T) {
	t.Helper()
	d := s.generator(0)
	c := &client{address: s.server.address}
	defer c.close()
	ask := func(r *request) {
		if s.credentials != nil {
			r.header = append(r.header, field{"Authorization", "Bearer " + s.credentials.all})
		}
		s.send(d, c, r)
	}
	for _, name := range ledgers {
		if name != first {
			s.server.send(t, http.MethodPost, "/v1/ledgers", `{"name":"`+name+`"}`, http.StatusCreated)
		}
		for _, op := range s.contract.operations {
			if op.body == nil || op.OperationID == "createLedger" || !strings.Contains(op.route, "{ledger}") {
				continue
			}
			for _, example := range op.examples {
				r := d.valid(op)
				r.ledger, r.tree, r.lines = name, valueOf(op.body, example), nil
				if op.media == linesType {
					r.tree, r.lines = nil, r.tree.items
				}
				r.target = strings.Replace(r.target, "/v1/ledgers/"+d.ledger, "/v1/ledgers/"+name, 1)
				r.write()
				ask(r)
			}
		}
	}
	s.seeConsole(t, d)
	for _, op := range s.contract.operations {
		if op.OperationID == "makeSnapshot" {
			continue // the operation succeeds only while a backup command is waiting for the snapshot
		}
		for tries := 0; !s.tally.succeeded(op.OperationID); tries++ {
			require.Less(t, tries, 500, "%s never succeeds", op.OperationID)
			r := d.valid(op)
			if op.OperationID == "lookUpRunDAG" { // the lookup needs a run-DAG with the hashes from the example
				s.server.send(t, http.MethodPost, "/v1/ledgers/"+first+"/run-dags", answered, http.StatusCreated)
				r.ledger, r.tree, r.target = first, valueOf(op.body, op.examples[0]), strings.ReplaceAll(op.route, "{ledger}", first)
				r.query = nil
				r.write()
			}
			ask(r)
			if tries%10 == 9 { // the content that the operation needs might have been erased, so record more
				for _, writing := range s.contract.operations {
					if slices.Contains(recording, writing.OperationID) {
						ask(d.valid(writing))
					}
				}
			}
		}
	}
}

// seeConsole remembers the version and names of the files that the page at / refers to, because
// they appear in no JSON answer.
func (s *attacker) seeConsole(t *testing.T, d *generator) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.server.address+"/", http.NoBody)
	require.NoError(t, err)
	r.Header.Set("Accept", "text/html")
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	files := regexp.MustCompile(`ui/([^/"]+)/([^/"]+)"`).FindAllSubmatch(page, -1)
	require.NotEmpty(t, files, "%s", page)
	for _, name := range ledgers { // the files do not depend on the ledger, but values are recalled per ledger
		for _, file := range files {
			s.seen.keep(d.Rand, name, "version"+pairSeparator+"file", string(file[1])+pairSeparator+string(file[2]))
		}
	}
}

// generator returns a new generator for a client. Each call returns a generator with a different
// seed, even for the same client.
func (s *attacker) generator(client uint64) *generator {
	s.round++
	return &generator{Rand: rand.New(rand.NewPCG(s.seed, s.round<<8|client)), contract: s.contract, seen: s.seen, credentials: s.credentials}
}

// attack sends the given number of requests, divided among all clients.
func (s *attacker) attack(requests int) {
	var left atomic.Int64
	left.Store(int64(requests))
	s.attackWhile(func(n int) bool { return left.Add(-int64(n)) >= 0 })
}

// attackWhile sends requests from all clients. Each client calls goOn before it sends the next n
// requests, and stops when goOn returns false.
func (s *attacker) attackWhile(goOn func(n int) bool) {
	defer s.holdConnections()()
	var running sync.WaitGroup
	for i := range uint64(clients) {
		d := s.generator(i)
		running.Go(func() {
			c := &client{address: s.server.address}
			defer c.close()
			for {
				for _, op := range d.turn() {
					list := s.draw(d, op)
					if !goOn(len(list)) {
						return
					}
					s.send(d, c, list...)
				}
			}
		})
	}
	running.Wait()
}

// holdConnections opens connections and sends only the beginning of a request on each of them.
// Calling leave closes them.
func (s *attacker) holdConnections() (leave func()) {
	d := s.generator(clients)
	var open []net.Conn
	for range 4 * clients {
		conn, err := net.Dial("tcp", s.server.address)
		if err != nil {
			continue // if the server is down, the attack reports it
		}
		text := d.valid(pick(d, s.contract.operations...)).text()
		_, _ = conn.Write(text[:d.IntN(len(text))]) // the server might have closed the connection
		open = append(open, conn)
	}
	return func() {
		for _, conn := range open {
			_ = conn.Close() // an error does not matter; no data can be lost
		}
	}
}

// turn returns all operations in random order. Operations with a body appear several times.
func (d *generator) turn() []*operation {
	list := slices.Clone(d.contract.operations)
	for _, op := range d.contract.operations {
		switch op.media {
		case jsonType:
			list = append(list, op)
		case linesType:
			list = append(list, op, op, op, op)
		}
	}
	d.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// draw returns a random request for an operation. Sometimes it returns several requests, which the
// client pipelines.
func (s *attacker) draw(d *generator, op *operation) []*request {
	switch d.IntN(10) {
	case 0, 1, 2, 3:
		list := []*request{d.valid(op)}
		for d.chance(8) && op.method == http.MethodGet {
			list = append(list, d.valid(op))
		}
		return list
	case 4, 5, 6:
		return []*request{d.nearly(op)}
	}
	return []*request{d.hostile(op)}
}

// send sends requests, checks the answers, and remembers values from them for later requests.
func (s *attacker) send(d *generator, c *client, requests ...*request) {
	before := c.before
	for _, r := range requests {
		d.authorize(r)
	}
	for _, r := range requests { // a garbled last request can make the server drop the connection
		r.way.garbled = r.way.garbled || requests[len(requests)-1].way.garbled
	}
	answers := c.exchange(requests)
	for i, r := range requests {
		if i >= len(answers) {
			break // an earlier answer is missing, or the server closed the connection after it
		}
		a := answers[i]
		s.tally.add(r, a, s.contract.judge(r, a), before)
		before = r
		if a.status >= 200 && a.status < 300 && strings.Contains(a.header.Get("Content-Type"), "json") {
			s.seen.learn(d.Rand, r.ledger, a.body)
			s.seen.learn(d.Rand, r.ledger, r.body)
			s.remember(d, r, a)
		}
	}
}

// remember keeps the link to the next page of an answer for use in later requests.
func (s *attacker) remember(d *generator, r *request, a *answer) {
	var page struct {
		Next string `json:"next"`
	}
	if r.method != http.MethodGet || json.Unmarshal(a.body, &page) != nil || page.Next == "" {
		return
	}
	query := slices.DeleteFunc(slices.Clone(r.query), func(f field) bool { return f.name == "cursor" })
	query = append(query, field{"cursor", page.Next})
	next := request{target: r.target, query: query}
	s.seen.keepLink(d.Rand, r.ledger, next.url())
}

// settle waits until the server holds no more resources than it did after the warm-up; see
// level.above.
func (s *attacker) settle(t *testing.T, warm level) {
	t.Helper()
	await(t, func() string {
		now := s.server.measure(t)
		if excess := now.above(warm); excess != "" {
			return fmt.Sprintf("%s: %v", excess, now)
		}
		t.Logf("after the attack: %v", now)
		return ""
	})
}

// badLine matches a line of the server's log that reports a failure, or that contains control
// characters from a client, which would make the log unreadable.
var badLine = regexp.MustCompile(`level=ERROR|panic|goroutine |[\x00-\x1f\x7f]`)

// digits matches the parts in which log lines with the same message can differ.
var digits = regexp.MustCompile(`0x[0-9a-f]+|[0-9]`)

// finish stops the server after the attack, and checks its log and its data folder.
func (s *attacker) finish(t *testing.T) {
	t.Helper()
	s.server.send(t, http.MethodPost, "/v1/ledgers/default/path-fingerprints", `{"project":"p","route":["in the end"],"content":"Still here."}`,
		http.StatusCreated)
	s.server.stop(t)
	seen := make(map[string]bool)
	for line := range strings.Lines(s.server.log.String()) {
		kind := digits.ReplaceAllString(line, "")
		if badLine.MatchString(strings.TrimSuffix(line, "\n")) && !seen[kind] {
			seen[kind] = true
			t.Errorf("in the server's log: %.1000q", line)
		}
	}
	run(t, "fsck", "--data", s.server.data)
}
