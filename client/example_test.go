package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	"colophon/client"
	"colophon/client/wire"
)

// exampleServer starts a server for one example. The stop function shuts it down and removes its
// files.
func exampleServer() (s *testServer, stop func()) {
	dir, err := os.MkdirTemp("", "colophon-example-")
	if err != nil {
		log.Fatal(err)
	}
	s, stopped, err := start(dir)
	if err != nil {
		log.Fatal(err)
	}
	return s, func() {
		stopped()
		_ = os.RemoveAll(dir)
	}
}

func Example() {
	server, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	c, err := client.New(server.URL, client.WithVerifierKeys("default", server.key()))
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := c.Ledger("default").Records.Post(ctx, &wire.IPCRecord{
		CommonRecordMembers: wire.CommonRecordMembers{RunID: "run/1"},
		Payload:             json.RawMessage(`{"question": "Who keeps the light?"}`),
		SystemPrompt:        new("Be brief."),
		Output:              new("Ana Varga."),
		Model:               "m1",
		Temperature:         new(0.7),
		MaxTokens:           wire.IntNumber(256),
		Seed:                wire.IntNumber(7),
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("event", receipt.Seq, "is recorded, and its receipt verifies")
	fmt.Println("output_hash", receipt.Hashes.Get("output_hash"))
	// Output:
	// event 1 is recorded, and its receipt verifies
	// output_hash 1846bdaaf1c182adf4982abcd6cbd76b9ec8cefd200d8a09e913fc089870e4c9
}

func ExampleRecordsService_PostBatch() {
	server, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	c, err := client.New(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	lines := func(yield func(client.BatchLine) bool) {
		for _, text := range []string{"One.", "Two.", "Three."} {
			record := &wire.IPCRecord{Payload: json.RawMessage(`{}`), Output: &text, Model: "m1", Temperature: new(0.0), MaxTokens: wire.IntNumber(256)}
			if text == "Two." {
				record.OutputHash = "no hash"
			}
			if !yield(client.BatchLine{Record: record}) {
				return
			}
		}
	}
	for result, err := range c.Ledger("default").Records.PostBatch(ctx, lines, nil) {
		switch {
		case err != nil: // the batch has failed
			log.Fatal(err)
		case result.Err != nil: // this line was refused
			fmt.Println(result.Err)
		default:
			fmt.Println("line", result.Index, "is event", result.Receipt.Seq)
		}
	}
	// Output:
	// line 0 is event 1
	// line 1 of a batch: 422 /record/output_hash: must be exactly 64 lower-case hexadecimal digits
	// line 2 is event 2
}

func ExamplePagedList_All() {
	server, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	c, err := client.New(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	l := c.Ledger("default")
	var last *wire.Receipt
	for _, model := range []string{"m1", "m2", "m1"} {
		if last, err = l.Records.Post(ctx, &wire.IPCRecord{Payload: json.RawMessage(`{}`), Model: model, Temperature: new(0.0), MaxTokens: wire.IntNumber(256)}, nil); err != nil {
			log.Fatal(err)
		}
	}
	records := l.Records.List(&client.RecordFilter{
		QueryOptions: client.QueryOptions{AfterSeq: last.Seq, Limit: 1}, // wait until the index contains the last record
		Where:        map[string]string{"model": "m1"},
	})
	for record, err := range records.All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("event", record.Seq)
	}
	// Output:
	// event 3
	// event 1
}

func ExampleEventsService_Follow() {
	server, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	c, err := client.New(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	l := c.Ledger("default")
	if _, err := l.Sources.Register(ctx, "book", wire.SourceRegistration{Title: new("A book")}, nil); err != nil {
		log.Fatal(err)
	}
	if _, err := l.Freeze(ctx); err != nil { // makes Follow stop after the last event
		log.Fatal(err)
	}
	for line, err := range l.Events.Follow(ctx, 0) {
		if err != nil {
			log.Fatal(err)
		}
		event, err := wire.ParseEvent(line.Event)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Seq, event.Kind)
	}
	// Output:
	// 0 ledger_created
	// 1 source_registered
}

func ExampleError() {
	server, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	c, err := client.New(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	l := c.Ledger("default")
	_, err = l.Records.Post(ctx, &wire.CitationSet{Subject: "answer", Citations: []wire.Citation{{SourceID: "book", Text: new("A text."), Weight: 2}}}, nil)
	problem := (*client.Error)(nil)
	if errors.Is(err, client.ErrUnprocessable) && errors.As(err, &problem) {
		for _, place := range problem.Errors {
			fmt.Println(place.Pointer, "-", place.Detail)
		}
	}
	_, err = l.Records.Get(ctx, 41, nil)
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output:
	// /citations/0/weight - must be between 0 and 1
	// true
}
