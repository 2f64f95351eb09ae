package hostile_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// class states how far a request deviates from what the contract allows.
type class string

const (
	valid   class = "valid"
	nearly  class = "nearly valid" // one thing is wrong
	hostile class = "hostile"
)

type request struct {
	op    *operation // the operation for which the request was generated
	class class
	trick string // name of the fault or trick that was applied; "valid" if there is none
	// refused means that the server must refuse the request or, in a batch, at least one line.
	refused bool
	// unauthenticated means that the request lacks valid credentials although they are required.
	unauthenticated bool

	ledger                string
	method, target, proto string
	header                []field // sent in this order; names can repeat
	body                  []byte
	tree                  *value   // the parsed body; nil if it is not JSON
	lines                 []*value // lines of a batch
	query                 []field

	way way
}

type field struct{ name, value string }

// way describes how a request is sent.
type way struct {
	raw []byte // if not nil, sent instead of the request
	// parts is the number of writes into which the request is split; 0 means one.
	parts int
	// send is the number of bytes after which the client stops sending; 0 means all.
	send int
	// leave closes the connection without waiting for an answer.
	leave bool
	// garbled means that the request might not be valid HTTP; net/http might answer it itself,
	// or not at all.
	garbled bool
}

// valid returns a random request that the contract allows.
func (d *generator) valid(op *operation) *request {
	d.ledger = d.ledgerFor(op)
	r := &request{op: op, class: valid, trick: "valid", ledger: d.ledger, method: op.method, proto: "HTTP/1.1"}
	r.target = d.path(op)
	d.addParameters(r)
	if forms := op.forms(); len(forms) > 1 && d.chance(3) {
		r.header = append(r.header, field{"Accept", pick(d, forms...)})
	}
	if op.body != nil && (op.RequestBody.Value.Required || d.chance(2)) {
		d.addBody(r)
	}
	if link, ok := d.seen.recall(d.Rand, d.ledger, linkTo(op)); ok && op.method == http.MethodGet && d.chance(3) {
		r.follow(link)
	}
	return r
}

// forms returns the media types of an operation's response with status 200, sorted.
func (op *operation) forms() (list []string) {
	if success := op.Responses.Status(http.StatusOK); success != nil {
		list = slices.Sorted(maps.Keys(success.Value.Content))
	}
	return list
}

// follow changes the request so that it follows a link from an earlier answer.
func (r *request) follow(link string) {
	var query string
	r.target, query, _ = strings.Cut(link, "?")
	r.query = nil
	for pair := range strings.SplitSeq(query, "&") {
		name, text, _ := strings.Cut(pair, "=")
		name, _ = url.QueryUnescape(name) // cannot fail, because the link was percent-encoded
		text, _ = url.QueryUnescape(text)
		if name != "" {
			r.query = append(r.query, field{name, text})
		}
	}
}

// addBody gives the request a random body.
func (d *generator) addBody(r *request) {
	r.header = slices.DeleteFunc(r.header, func(f field) bool { return f.name == "Content-Encoding" }) // the new body is not compressed
	r.header = append(r.header, field{"Content-Type", r.op.media})
	r.tree = d.body(r.op)
	if r.op.media == linesType {
		for range d.IntN(5) {
			r.tree.items = append(r.tree.items, d.body(r.op).items...)
		}
		r.lines, r.tree = r.tree.items, nil
	}
	switch r.op.OperationID {
	case "createLedger": // use only a few names, because each ledger occupies memory until the server stops
		r.tree.set("name", scalar(r.op.body.Properties["name"].Value, quote(pick(d, append(ledgers, third)...))))
	case "compute":
		r.target = "/v1/compute/" + d.kind(r.tree)
	}
	r.write()
}

// kind returns a value for the path parameter of /compute that matches a record: the name of its
// kind, such as run_dag, or the name of the kind's route, such as run-dags.
func (d *generator) kind(record *value) string {
	compute := d.contract.operation("compute")
	names := flat(compute.parameters[0].Schema.Value).Enum
	for i, one := range compute.body.OneOf {
		if allows(one.Value, record.appendTo(nil)) { // the schemas are in the same order as the names
			return fmt.Sprint(names[i+pick(d, 0, len(names)/2)])
		}
	}
	return fmt.Sprint(pick(d, names...))
}

// write encodes the tree or the lines of the request as its body.
func (r *request) write() {
	r.body = r.body[:0]
	if r.tree != nil {
		r.body = r.tree.appendTo(r.body)
	}
	for _, line := range r.lines {
		r.body = append(line.appendTo(r.body), '\n')
	}
}

// url returns the target of the request, including the query.
func (r *request) url() string {
	if len(r.query) == 0 {
		return r.target
	}
	var b strings.Builder
	b.WriteString(r.target)
	for i, f := range r.query {
		b.WriteByte("?&"[min(i, 1)])
		b.WriteString(url.QueryEscape(f.name) + "=" + url.QueryEscape(f.value))
	}
	return b.String()
}

func (r *request) has(name string) bool {
	return slices.ContainsFunc(r.header, func(f field) bool { return strings.EqualFold(f.name, name) })
}

// text returns the request as the bytes that are sent.
func (r *request) text() []byte {
	if r.way.raw != nil {
		return r.way.raw
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s %s\r\n", r.method, r.url(), r.proto)
	if !r.has("Host") {
		b.WriteString("Host: localhost\r\n")
	}
	for _, f := range r.header {
		b.WriteString(f.name + ": " + f.value + "\r\n")
	}
	if !r.has("Content-Length") && !r.has("Transfer-Encoding") && (len(r.body) > 0 || r.op.body != nil) {
		b.WriteString("Content-Length: " + strconv.Itoa(len(r.body)) + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(r.body)
	return b.Bytes()
}
