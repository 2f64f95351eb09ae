package otlp

import (
	"net/http"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"colophon/api/limits"
	"colophon/api/problem"
	"colophon/ledger/record/pyjson"
)

// item is a span or a log record, as it was sent.
type item struct {
	raw      []byte
	resource int // index in items.resources; -1 if the item has no resource
}

// items contains the spans or log records of a request in their original order. Their bytes are
// parts of the request body.
type items struct {
	json      bool
	list      []item
	resources [][]byte
	hold      func(n int64) error // reserves n bytes of the memory budget
}

// listMemory is the memory, in bytes, of an item in items.list and of its resource, including the
// spare capacity of the lists. listStep is the number of items for which split reserves memory at once.
const (
	listMemory = 72
	listStep   = 1024
)

// split finds the items of a body without decoding them, so that each item can be decoded separately.
// most is the maximum number of values allowed in a JSON body. split calls hold to reserve memory for
// the list of items, because the list can be much larger than the body.
func split(signal *Signal, media string, body []byte, most int, hold func(n int64) error) (*items, error) {
	s := &items{json: media == JSONMediaType, hold: hold}
	if s.json {
		var document pyjson.Document
		if err := document.ParseLimited(body, most); err != nil {
			return nil, problem.New(http.StatusBadRequest, "cannot parse the body as OTLP in JSON: %v", err)
		}
		return s, s.splitJSON(signal, document.Root())
	}
	err := s.splitProtobuf(body)
	return s, err
}

// Field numbers of ExportTraceServiceRequest, of ExportLogsServiceRequest, and of the messages
// in them. Both requests have the same numbers.
const (
	fieldResourceGroup protowire.Number = 1 // in a request: a ResourceSpans or ResourceLogs
	fieldResource      protowire.Number = 1 // in a ResourceSpans or ResourceLogs: its resource
	fieldScopeGroup    protowire.Number = 2 // in a ResourceSpans or ResourceLogs: a ScopeSpans or ScopeLogs
	fieldItem          protowire.Number = 2 // in a ScopeSpans or ScopeLogs: a span or log record
)

var errProtobuf = problem.New(http.StatusBadRequest, "cannot parse the body as OTLP in Protobuf; check its Content-Type and encoding")

func (s *items) splitProtobuf(body []byte) error {
	return fields(body, fieldResourceGroup, func(group []byte) error {
		resource := -1
		if err := fields(group, fieldResource, func(b []byte) error {
			if resource < 0 {
				resource = len(s.resources)
				s.resources = append(s.resources, nil)
			}
			s.resources[resource] = b
			return nil
		}); err != nil {
			return err
		}
		before := len(s.list)
		err := fields(group, fieldScopeGroup, func(scope []byte) error {
			return fields(scope, fieldItem, func(b []byte) error { return s.add(b, resource) })
		})
		if len(s.list) == before && resource >= 0 {
			s.resources = s.resources[:resource] // drop the resource, because it has no items
		}
		return err
	})
}

// fields calls f with the value of each length-delimited field of the message whose field number
// is number.
func fields(message []byte, number protowire.Number, f func([]byte) error) error {
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return errProtobuf
		}
		message = message[size:]
		if kind != protowire.BytesType {
			if size = protowire.ConsumeFieldValue(n, kind, message); size < 0 {
				return errProtobuf
			}
			message = message[size:]
			continue
		}
		value, size := protowire.ConsumeBytes(message)
		if size < 0 {
			return errProtobuf
		}
		message = message[size:]
		if n == number {
			if err := f(value); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds an item. It returns a 413 RejectedError if the request already has MaxItems items.
func (s *items) add(raw []byte, resource int) error {
	if len(s.list) == MaxItems {
		return limits.NewRejectedError(limits.ReasonSize, http.StatusRequestEntityTooLarge, 0,
			"the request has more than %d spans or log records; send fewer at once", MaxItems)
	}
	if len(s.list)%listStep == 0 {
		if err := s.hold(listStep * listMemory); err != nil {
			return err
		}
	}
	s.list = append(s.list, item{raw, resource})
	return nil
}

func (s *items) splitJSON(signal *Signal, root pyjson.Value) error {
	if root.Kind() != pyjson.Object {
		return problem.AtPointer(http.StatusBadRequest, "", "must be an object with "+signal.jsonNames[0][0])
	}
	for _, other := range signals {
		if other == signal {
			continue
		}
		for _, name := range other.jsonNames[0] {
			if root.Member(name).IsGiven() {
				return problem.AtPointer(http.StatusBadRequest, "/"+name, "must be sent to "+other.path+"; this request was sent to "+signal.path)
			}
		}
	}
	return objects(root, "", signal.jsonNames[0], func(group pyjson.Value, at string) error {
		resource := -1
		if given := group.Member("resource"); given.IsGiven() {
			resource = len(s.resources)
			s.resources = append(s.resources, given.Raw())
		}
		return objects(group, at, signal.jsonNames[1], func(scope pyjson.Value, at string) error {
			list, _, err := listIn(scope, at, signal.jsonNames[2])
			if err != nil {
				return err
			}
			for e := range list.Elements() {
				if err := s.add(e.Raw(), resource); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// objects finds an array in v, as listIn does, and calls f with each element and the element's
// JSON Pointer. It returns an error if an element is not an object. pointer is the JSON Pointer of
// v.
func objects(v pyjson.Value, pointer string, names []string, f func(e pyjson.Value, pointer string) error) error {
	list, pointer, err := listIn(v, pointer, names)
	if err != nil {
		return err
	}
	i := 0
	for e := range list.Elements() {
		at := pointer + "/" + strconv.Itoa(i)
		if e.Kind() != pyjson.Object {
			return problem.AtPointer(http.StatusBadRequest, at, "must be an object")
		}
		if err := f(e, at); err != nil {
			return err
		}
		i++
	}
	return nil
}

// listIn returns the member of v that has one of the given names, and the JSON Pointer of that member.
// Earlier names take precedence. It returns an error if the member is not an array. If v has no such
// member, list is absent and err is nil. pointer is the JSON Pointer of v.
func listIn(v pyjson.Value, pointer string, names []string) (list pyjson.Value, at string, err error) {
	for _, name := range names {
		list = v.Member(name)
		if !list.IsGiven() {
			continue
		}
		at = pointer + "/" + name
		if list.Kind() != pyjson.Array {
			return list, at, problem.AtPointer(http.StatusBadRequest, at, "must be an array")
		}
		return list, at, nil
	}
	return list, pointer, nil
}
