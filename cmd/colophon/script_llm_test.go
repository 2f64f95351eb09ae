package main

import (
	"github.com/rogpeppe/go-internal/testscript"

	"colophon/internal/testing/llm"
)

// llmsKey is the key under which a script's environment holds its LLM endpoints.
type llmsKey struct{}

// scriptLLM runs endpoints that generate text:
//
//	llm start NAME          starts an endpoint and sets MODEL to its URL
//	llm key NAME KEY        makes the endpoint require this API key, or none if KEY is empty
//	llm ignore-seed NAME    makes the endpoint answer differently each time
//	llm stop NAME
func scriptLLM(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: llm start|key|ignore-seed|stop NAME ...")
	}
	all := ts.Value(llmsKey{}).(map[string]*llm.Server)
	switch name := args[1]; args[0] {
	case "start":
		all[name] = llm.New()
		ts.Defer(all[name].Close)
		ts.Setenv("MODEL", all[name].URL)
	case "key":
		all[name].Key = args[2]
	case "ignore-seed":
		all[name].IgnoreSeed = true
	case "stop":
		all[name].Close()
	default:
		ts.Fatalf("llm %s: unknown", args[0])
	}
}
