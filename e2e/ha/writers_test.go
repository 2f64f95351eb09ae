package ha_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"colophon/proofs"
)

const (
	writers = 64
	// answerTime is how long a client waits for a response before it tries another server.
	answerTime = 5 * time.Second
)

// clients is a set of clients that write to and read from random servers.
type clients struct {
	servers   []*server
	histories []*history
	acked     []*successTimes // times of acknowledged writes to each ledger
	http      *http.Client
	stop      context.Context // when it is done, clients begin no new requests
	quit      context.Context // when it is done, clients give up on unanswered requests
}

// write starts the writers. They begin new attempts until stop is done, and then continue until
// every attempt is acknowledged or quit is done. The writers are added to group.
func (c *clients) write(group *sync.WaitGroup, seed uint64) {
	c.http = &http.Client{Timeout: answerTime, Transport: &http.Transport{MaxIdleConnsPerHost: writers}}
	for i := range writers {
		r := rand.New(rand.NewPCG(seed, uint64(i))) // #nosec G404 -- cases of tests
		group.Go(func() {
			for c.stop.Err() == nil {
				ledger := r.IntN(len(ledgers))
				if r.IntN(8) == 0 {
					c.read(r, c.histories[ledger])
				}
				c.post(r, ledger, c.histories[ledger].begin(attemptCount(r)))
				time.Sleep(time.Duration(50+r.IntN(300)) * time.Millisecond)
			}
		})
	}
}

// attemptCount chooses how many records to post together. One post in eight is a batch. One in 512 is so
// large that its records, which wait for an earlier commit, are stored with COPY.
func attemptCount(r *rand.Rand) int {
	switch {
	case r.IntN(512) == 0:
		return 1000
	case r.IntN(8) == 0:
		return 2 + r.IntN(10)
	}
	return 1
}

// post posts the attempts in list to random servers until all of them are acknowledged or quit is
// done.
func (c *clients) post(r *rand.Rand, ledger int, list []*attempt) {
	batch := len(list) > 1
	for tries := 0; len(list) > 0 && c.quit.Err() == nil; tries++ {
		if tries > 0 {
			time.Sleep(time.Duration(50+r.IntN(200)) * time.Millisecond)
		}
		s := c.servers[r.IntN(len(c.servers))]
		if batch {
			c.batch(s, ledger, list)
		} else {
			c.single(s, ledger, list[0], r.IntN(4) == 0)
		}
		var rest []*attempt
		for _, a := range list {
			if a.receipt == nil {
				rest = append(rest, a)
			}
		}
		list = rest
	}
}

// record returns the JSON record of an attempt.
func (a *attempt) record() string {
	return fmt.Sprintf(`{"run_id":"run-%d","payload":{"n":%d},"system_prompt":"s","output":"output %d","model":"m","temperature":0.5,"max_tokens":16,"labels":{"attempt":"%d"}}`,
		a.id, a.id, a.id, a.id)
}

func (c *clients) single(s *server, ledger int, a *attempt, minimal bool) {
	request, err := http.NewRequest(http.MethodPost, s.clientURL()+"/v1/ledgers/"+ledgers[ledger]+"/ipc-records", bytes.NewReader([]byte(a.record())))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if minimal {
		request.Header.Set("Prefer", "return=minimal")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil {
		c.judge(ledger, a, answer.StatusCode, text)
	}
}

func (c *clients) batch(s *server, ledger int, list []*attempt) {
	var body bytes.Buffer
	for _, a := range list {
		fmt.Fprintf(&body, `{"kind":"ipc_record","record":%s}`+"\n", a.record())
	}
	request, err := http.NewRequest(http.MethodPost, s.clientURL()+"/v1/ledgers/"+ledgers[ledger]+"/batch", &body)
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	request.Header.Set("Prefer", "return=representation")
	answer, err := c.http.Do(request)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	lines := bufio.NewReaderSize(answer.Body, 1<<20)
	for _, a := range list {
		if answer.StatusCode != http.StatusOK {
			c.judge(ledger, a, answer.StatusCode, nil)
			continue
		}
		line, err := lines.ReadBytes('\n')
		var problem struct{ Status int }
		if err != nil || json.Unmarshal(line, &problem) != nil {
			return
		}
		if problem.Status == 0 {
			problem.Status = http.StatusCreated
		}
		c.judge(ledger, a, problem.Status, line)
	}
}

// judge handles the response to an attempt. It records an acknowledgement, ignores a failure that
// permits a retry, and reports any other response as an error.
func (c *clients) judge(ledger int, a *attempt, status int, text []byte) {
	h := c.histories[ledger]
	switch status {
	case http.StatusOK, http.StatusCreated:
		receipt, err := proofs.ParseReceipt(bytes.TrimSpace(text))
		if err != nil {
			h.broken("the response to attempt %d is not a receipt: %w: %s", a.id, err, text)
			return
		}
		h.acknowledged(a, receipt)
		c.acked[ledger].note()
	case http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusRequestTimeout:
	default:
		h.broken("attempt %d: %d: %s", a.id, status, text)
	}
}

// read queries a random server and records the size of its index. The parameter after makes the
// server include the newest event that was acknowledged or read.
func (c *clients) read(r *rand.Rand, h *history) {
	s := c.servers[r.IntN(len(c.servers))]
	one := read{sent: time.Now()}
	answer, err := c.http.Get(fmt.Sprintf("%s/v1/ledgers/%s/records?limit=1&after=%d", s.clientURL(), h.ledger, h.latest()))
	if err != nil {
		return
	}
	defer answer.Body.Close()
	var list struct {
		AsOf uint64 `json:"as_of"`
	}
	if answer.StatusCode == http.StatusOK && json.NewDecoder(answer.Body).Decode(&list) == nil {
		one.size = list.AsOf
		h.saw(one)
	}
}
