package genai

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"colophon/ledger/record"
)

var usual = LabelLimits{MaxLabels: 32, MaxValueBytes: 128}

// attributesOf maps the names of attributes to their values. Arrays and objects become structured
// values, not JSON strings.
type attributesOf map[string]any

func (a attributesOf) list() (list []*commonpb.KeyValue) {
	names := make([]string, 0, len(a))
	for name := range a {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		list = append(list, &commonpb.KeyValue{Key: name, Value: anyOf(a[name])})
	}
	return list
}

func anyOf(v any) *commonpb.AnyValue {
	switch v := v.(type) {
	case string:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}}
	case int:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: int64(v)}}
	case float64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v}}
	case bool:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v}}
	case []any:
		list := new(commonpb.ArrayValue)
		for _, e := range v {
			list.Values = append(list.Values, anyOf(e))
		}
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_ArrayValue{ArrayValue: list}}
	case map[string]any:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_KvlistValue{KvlistValue: &commonpb.KeyValueList{Values: attributesOf(v).list()}}}
	}
	panic(fmt.Sprintf("%T", v))
}

// structured decodes JSON into an attribute value that is sent as a structure, not as a string.
func structured(t testing.TB, text string) any {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

var (
	traceID = []byte("trace id of 16 B")
	spanID  = []byte("spanid 8")
)

const runID = "7472616365206964206f662031362042-7370616e69642038"

func spanOf(a attributesOf, events ...*tracepb.Span_Event) *tracepb.Span {
	return &tracepb.Span{TraceId: traceID, SpanId: spanID, Name: "chat", StartTimeUnixNano: 1764000000000000000, EndTimeUnixNano: 1764000001500000000,
		Attributes: a.list(), Events: events}
}

func eventOf(name string, a attributesOf) *tracepb.Span_Event {
	return &tracepb.Span_Event{Name: name, Attributes: a.list()}
}

func resourceSpans(spans ...*tracepb.Span) []*tracepb.ResourceSpans {
	return []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: attributesOf{"service.name": "chat-web", "service.version": "7"}.list()},
		ScopeSpans: []*tracepb.ScopeSpans{{Spans: spans}},
	}}
}

func resourceLogs(records ...*logspb.LogRecord) []*logspb.ResourceLogs {
	return []*logspb.ResourceLogs{{
		Resource:  &resourcepb.Resource{Attributes: attributesOf{"service.name": "chat-web", "service.version": "7"}.list()},
		ScopeLogs: []*logspb.ScopeLogs{{LogRecords: records}},
	}}
}

// only requires that items contains exactly one item, and that the ledger accepts its record. It
// returns the item and its decoded record.
func only(t testing.TB, items []Item) (Item, map[string]any) {
	t.Helper()
	require.Len(t, items, 1)
	require.NoError(t, items[0].Err)
	require.NotNil(t, items[0].Record, "no generation")
	r, err := record.Parse(record.KindIPCRecord, items[0].Record)
	require.NoError(t, err, "%s", items[0].Record)
	r.Release()
	var m map[string]any
	require.NoError(t, json.Unmarshal(items[0].Record, &m))
	return items[0], m
}

func read(spans ...*tracepb.Span) []Item {
	return slices.Collect(usual.ReadSpans(resourceSpans(spans...)))
}

func readLogs(records ...*logspb.LogRecord) []Item {
	return slices.Collect(usual.ReadLogRecords(resourceLogs(records...)))
}

// Spans that describe the same chat in different dialects result in the same record.
func TestDialectsAgree(t *testing.T) {
	const (
		messages = `[{"role":"user","parts":[{"type":"text","content":"Weather in Paris?"}]},
			{"role":"assistant","parts":[{"type":"tool_call","id":"call_VSPy","name":"get_weather","arguments":{"location":"Paris"}}]},
			{"role":"tool","parts":[{"type":"tool_call_response","id":"call_VSPy","response":"rainy, 57°F"}]}]`
		old = `[{"role":"system","content":"Be brief."},{"role":"user","content":"Weather in Paris?"},
			{"role":"assistant","tool_calls":[{"id":"c9","type":"function","function":{"name":"get_weather","arguments":"{\"location\": \"Paris\"}"}}]},
			{"role":"tool","tool_call_id":"c9","content":"rainy, 57°F"}]`
		wanted = `{"messages":[{"content":"Weather in Paris?","role":"user"},
			{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"location\":\"Paris\"}","name":"get_weather"},"id":"call_1","type":"function"}]},
			{"content":"rainy, 57°F","role":"tool","tool_call_id":"call_1"}],"top_p":1}`
	)
	sampled := attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4", "gen_ai.response.model": "gpt-4-0613",
		"gen_ai.request.temperature": 0.5, "gen_ai.request.max_tokens": 100, "gen_ai.request.seed": 7, "gen_ai.request.top_p": 1.0}
	with := func(more attributesOf) attributesOf {
		all := attributesOf{}
		for _, a := range []attributesOf{sampled, more} {
			for name, v := range a {
				all[name] = v
			}
		}
		return all
	}
	indexed := func(prefix string) attributesOf {
		return with(attributesOf{
			prefix + ".0.role": "system", prefix + ".0.content": "Be brief.",
			prefix + ".1.role": "user", prefix + ".1.content": "Weather in Paris?",
			prefix + ".2.role": "assistant", prefix + ".2.tool_calls.0.id": "x", prefix + ".2.tool_calls.0.name": "get_weather", prefix + ".2.tool_calls.0.arguments": `{"location": "Paris"}`,
			prefix + ".3.role": "tool", prefix + ".3.tool_call_id": "x", prefix + ".3.content": "rainy, 57°F",
		})
	}
	add := func(a attributesOf, more attributesOf) attributesOf {
		for name, v := range more {
			a[name] = v
		}
		return a
	}
	const in, out = "llm.input_messages", "llm.output_messages"
	spans := map[string]*tracepb.Span{
		"current": spanOf(with(attributesOf{"gen_ai.provider.name": "openai", "gen_ai.input.messages": messages,
			"gen_ai.system_instructions": `[{"type":"text","content":"Be brief."}]`,
			"gen_ai.output.messages":     `[{"role":"assistant","parts":[{"type":"reasoning","content":"hm"},{"type":"text","content":"Rain."}],"finish_reason":"stop"}]`})),
		"current, structured": spanOf(with(attributesOf{"gen_ai.provider.name": "openai", "gen_ai.input.messages": structured(t, messages),
			"gen_ai.system_instructions": structured(t, `[{"type":"text","content":"Be brief."}]`),
			"gen_ai.output.messages":     structured(t, `[{"role":"assistant","parts":[{"type":"text","content":"Rain."}],"finish_reason":"stop"}]`)})),
		"current, details as an event": spanOf(sampled, eventOf(detailsEvent, attributesOf{"gen_ai.input.messages": structured(t, messages),
			"gen_ai.system_instructions": structured(t, `[{"type":"text","content":"Be brief."}]`),
			"gen_ai.output.messages":     structured(t, `[{"role":"assistant","parts":[{"type":"text","content":"Rain."}]}]`)})),
		"1.36, events on the span": spanOf(with(attributesOf{"gen_ai.system": "openai"}),
			eventOf("gen_ai.system.message", attributesOf{"gen_ai.system": "openai", "content": "Be brief."}),
			eventOf("gen_ai.user.message", attributesOf{"gen_ai.system": "openai", "content": "Weather in Paris?"}),
			eventOf("gen_ai.assistant.message", attributesOf{"gen_ai.event.content": `{"tool_calls":[{"id":"q","type":"function","function":{"name":"get_weather","arguments":"{\"location\":\"Paris\"}"}}]}`}),
			eventOf("gen_ai.tool.message", attributesOf{"content": "rainy, 57°F", "id": "q"}),
			eventOf("gen_ai.choice", attributesOf{"gen_ai.event.content": `{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Rain."}}`})),
		"before 1.29, one event for each side": spanOf(with(attributesOf{"gen_ai.system": "openai"}),
			eventOf("gen_ai.content.prompt", attributesOf{"gen_ai.prompt": old}),
			eventOf("gen_ai.content.completion", attributesOf{"gen_ai.completion": `[{"role":"assistant","content":"Rain."}]`})),
		"before 1.29, attributes": spanOf(with(attributesOf{"gen_ai.system": "openai", "gen_ai.prompt": old, "gen_ai.completion": `[{"role":"assistant","content":"Rain."}]`})),
		"events as an attribute": spanOf(with(attributesOf{"gen_ai.system": "openai", "events": `[{"event.name":"gen_ai.system.message","content":"Be brief.","role":"system"},
			{"event.name":"gen_ai.user.message","content":"Weather in Paris?","role":"user"},
			{"event.name":"gen_ai.assistant.message","role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"get_weather","arguments":{"location":"Paris"}}}]},
			{"event.name":"gen_ai.tool.message","role":"tool","id":"c","content":"rainy, 57°F"},
			{"event.name":"gen_ai.choice","index":0,"message":{"role":"assistant","content":"Rain."}}]`})),
		"OpenLLMetry": spanOf(add(indexed("gen_ai.prompt"), attributesOf{"llm.request.type": "chat", "gen_ai.system": "OpenAI", "gen_ai.prompt.name": "weather",
			"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "Rain.", "gen_ai.completion.0.finish_reason": "stop"})),
		"OpenLLMetry, early": spanOf(add(indexed("llm.prompts"), attributesOf{"llm.request.type": "chat", "llm.vendor": "OpenAI",
			"llm.completions.0.role": "assistant", "llm.completions.0.content": "Rain."})),
		"OpenInference": spanOf(attributesOf{"openinference.span.kind": "LLM", "llm.model_name": "gpt-4-0613", "llm.provider": "openai",
			"llm.invocation_parameters": `{"model": "gpt-4", "temperature": 0.5, "max_tokens": 100, "seed": 7, "top_p": 1.0, "extra_headers": {"Authorization": "secret"}}`,
			"input.value":               "{}", "output.value": "{}", "input.mime_type": "application/json",
			in + ".0.message.role": "system", in + ".0.message.content": "Be brief.",
			in + ".1.message.role": "user", in + ".1.message.contents.0.message_content.type": "text", in + ".1.message.contents.0.message_content.text": "Weather in Paris?",
			in + ".2.message.role": "assistant", in + ".2.message.tool_calls.0.tool_call.id": "z",
			in + ".2.message.tool_calls.0.tool_call.function.name": "get_weather", in + ".2.message.tool_calls.0.tool_call.function.arguments": `{"location": "Paris"}`,
			in + ".3.message.role": "tool", in + ".3.message.tool_call_id": "z", in + ".3.message.content": "rainy, 57°F",
			out + ".0.message.role": "assistant", out + ".0.message.content": "Rain."}),
		"OpenInference, values": spanOf(attributesOf{"openinference.span.kind": "LLM", "llm.model_name": "gpt-4-0613",
			"llm.invocation_parameters": `{"model": "gpt-4", "temperature": 0.5, "max_tokens": 100, "seed": 7, "top_p": 1.0}`,
			"input.value":               `{"messages": ` + old + `, "model": "gpt-4"}`, "output.value": `{"choices": [{"message": {"role": "assistant", "content": "Rain."}}]}`}),
	}
	for name, span := range spans {
		t.Run(name, func(t *testing.T) {
			item, m := only(t, read(span))
			payload, err := json.Marshal(m["payload"])
			require.NoError(t, err)
			require.JSONEq(t, wanted, string(payload))
			require.Equal(t, "Be brief.", m["system_prompt"])
			require.Equal(t, "Rain.", m["output"])
			require.Equal(t, "gpt-4", m["model"])
			require.Equal(t, map[string]any{"model_digest": "gpt-4-0613"}, m["environment"])
			require.Equal(t, []any{0.5, 100.0, 7.0}, []any{m["temperature"], m["max_tokens"], m["seed"]})
			require.Equal(t, runID, m["run_id"])
			require.NotContains(t, string(item.Record), "secret")
			if name != "current" {
				first, _ := only(t, read(spans["current"]))
				require.Equal(t, first.IdempotencyKey, item.IdempotencyKey)
			}
		})
	}
}

func TestRecordOfASpan(t *testing.T) {
	span := spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o", "gen_ai.response.model": "gpt-4o-2024-08-06",
		"openai.response.system_fingerprint": "fp_44709d6fcb", "gen_ai.response.id": "chatcmpl-1", "gen_ai.conversation.id": "conv_5", "gen_ai.prompt.name": "greeting",
		"gen_ai.prompt.version": 3, "gen_ai.response.finish_reasons": []any{"stop", "stop"}, "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 5,
		"gen_ai.usage.cache_read.input_tokens": 4, "gen_ai.request.stop_sequences": []any{"END"}, "gen_ai.request.choice.count": 1,
		"gen_ai.input.messages": `[{"role":"user","parts":[{"type":"text","content":"Hello"}]}]`, "gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"Hi"}]}]`,
		"gen_ai.tool.definitions": `[{"type":"function","name":"f"}]`})
	span.ParentSpanId = []byte("parent 8")
	_, m := only(t, read(span))
	require.Equal(t, map[string]any{
		"environment": map[string]any{"model_digest": "gpt-4o-2024-08-06 fp_44709d6fcb"},
		"labels": map[string]any{"trace_id": "7472616365206964206f662031362042", "span_id": "7370616e69642038", "parent_span_id": "706172656e742038", "service": "chat-web",
			"service_version": "7", "conversation": "conv_5", "response_id": "chatcmpl-1", "prompt_name": "greeting", "prompt_version": "3", "provider": "openai",
			"operation": "chat", "finish_reason": "stop"},
		"model": "gpt-4o", "output": "Hi", "run_id": runID, "timestamp": "2025-11-24T16:00:00.000000Z",
		"payload": map[string]any{"messages": []any{map[string]any{"role": "user", "content": "Hello"}}, "stop": []any{"END"}, "n": 1.0,
			"tools": []any{map[string]any{"type": "function", "name": "f"}}},
		"usage": map[string]any{"input_tokens": 12.0, "output_tokens": 5.0, "cache_read_tokens": 4.0, "duration_ms": 1500.0},
	}, m)
}

// Spans that lack most attributes still become records.
func TestSparseSpans(t *testing.T) {
	for name, c := range map[string]struct {
		span *tracepb.Span
		want string // members of the record, except for labels, run_id, timestamp, and usage
	}{
		"no content": {spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}),
			`{"model":"m","payload":{"not_sent":true,"span":"` + runID + `"}}`},
		"text parts without text": {spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.system_instructions": `[{"type":"text"}]`,
			"gen_ai.input.messages":  `[{"role":"system","parts":[{"type":"text"}]},{"role":"user","parts":[{"type":"text"}]}]`,
			"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text"},{"type":"tool_call","id":"c","name":"f"}]}]`}),
			`{"model":"m","payload":{"not_sent":true,"span":"` + runID + `"}}`},
		"hidden texts": {spanOf(attributesOf{"openinference.span.kind": "LLM", "llm.model_name": "m",
			"llm.input_messages.0.message.role": "system", "llm.input_messages.0.message.content": "__REDACTED__",
			"llm.input_messages.1.message.role": "user", "llm.input_messages.1.message.contents.0.message_content.type": "text",
			"llm.input_messages.1.message.contents.0.message_content.text": "__REDACTED__",
			"llm.output_messages.0.message.role":                           "assistant", "llm.output_messages.0.message.content": "__REDACTED__"}),
			`{"model":"m","payload":{"not_sent":true,"span":"` + runID + `"}}`},
		"empty lists": {spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.system_instructions": "[]",
			"gen_ai.input.messages": "[]", "gen_ai.output.messages": "[]"}),
			`{"model":"m","payload":{"not_sent":true,"span":"` + runID + `"}}`},
		"empty texts": {spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
			"gen_ai.input.messages": `[{"role":"user","parts":[{"type":"text","content":""}]}]`, "gen_ai.output.messages": `[{"role":"assistant","content":""}]`}),
			`{"model":"m","payload":{"messages":[{"content":"","role":"user"}]},"output":""}`},
		"no model": {spanOf(attributesOf{"gen_ai.operation.name": "text_completion", "gen_ai.prompt": "Once", "gen_ai.completion": "upon"}),
			`{"model":"unknown","payload":{"prompt":"Once"},"output":"upon"}`},
		"text": {spanOf(attributesOf{"openinference.span.kind": "LLM", "llm.model_name": "m", "input.value": "Once", "output.value": "upon"}),
			`{"model":"m","payload":{"prompt":"Once"},"output":"upon"}`},
		"other JSON": {spanOf(attributesOf{"openinference.span.kind": "LLM", "llm.model_name": "m", "input.value": `{"b":1,"a":2}`, "output.value": `{"c": 3}`}),
			`{"model":"m","payload":{"input":{"a":2,"b":1}},"output":"{\"c\": 3}"}`},
		"only a prompt": {spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.system_instructions": "Be brief."}),
			`{"model":"m","payload":{"not_sent":true,"span":"` + runID + `"},"system_prompt":"Be brief."}`},
		"strange numbers": {spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.prompt": "p", "gen_ai.request.max_tokens": -1,
			"gen_ai.request.seed": 1.5, "gen_ai.request.temperature": "0.5", "gen_ai.request.top_p": "x"}),
			`{"model":"m","payload":{"prompt":"p","top_p":"x"},"temperature":0.5}`},
		"an answer that calls a tool": {spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.prompt": "p",
			"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"tool_call","id":"r1","name":"f","arguments":{"x":1}}]}]`}),
			`{"model":"m","payload":{"prompt":"p"},"output":"[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"arguments\":\"{\\\"x\\\":1}\",\"name\":\"f\"},\"id\":\"call_1\",\"type\":\"function\"}]}]"}`},
		"two choices": {spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.prompt": "p",
			"gen_ai.completion.0.content": "a", "gen_ai.completion.1.content": "b", "gen_ai.completion.10.content": "k"}),
			`{"model":"m","payload":{"prompt":"p"},"output":"[{\"content\":\"a\",\"role\":\"assistant\"},{\"content\":\"b\",\"role\":\"assistant\"},{\"content\":\"k\",\"role\":\"assistant\"}]"}`},
		"lone surrogates": {spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": `[{"role":"user","content":"\ud83d"}]`}),
			`{"model":"m","payload":{"messages":[{"role":"user","content":"` + "\uFFFD" + `"}]}}`},
		"messages that are not JSON": {spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": `[{"role":"user"`, "gen_ai.output.messages": "[cut"}),
			`{"model":"m","payload":{"prompt":"[{\"role\":\"user\""},"output":"[cut"}`},
		"an empty chat": {spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": "[]", "gen_ai.prompt": ""}),
			`{"model":"m","payload":{"not_sent":true,"span":"` + runID + `"}}`},
		"hidden by OpenInference": {spanOf(attributesOf{"openinference.span.kind": "LLM", "llm.model_name": "m", "input.value": "__REDACTED__", "output.value": "__REDACTED__"}),
			`{"model":"m","payload":{"not_sent":true,"span":"` + runID + `"}}`},
		"numbers as texts": {spanOf(attributesOf{"openinference.span.kind": "llm", "llm.model_name": "m", "input.value": "p",
			"llm.invocation_parameters": `{"temperature":"0.25","max_tokens":"64","seed":" 9 ","top_p":"0.5"}`, "llm.token_count.prompt": "12"}),
			`{"model":"m","payload":{"prompt":"p","top_p":"0.5"},"temperature":0.25,"max_tokens":64,"seed":9}`},
		"a long name of a model": {spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": strings.Repeat("m", 2000), "gen_ai.prompt": "p"}),
			`{"model":"` + strings.Repeat("m", 1005) + `…493027a4f437b489","payload":{"prompt":"p"}}`},
		"an operation in capitals": {spanOf(attributesOf{"gen_ai.operation.name": "Chat", "gen_ai.request.model": "m", "gen_ai.prompt": "p"}), `{"model":"m","payload":{"prompt":"p"}}`},
		"an operation without a known name": {spanOf(attributesOf{"gen_ai.operation.name": "converse", "gen_ai.system": "aws.bedrock", "gen_ai.request.model": "m"}),
			`{"model":"m","payload":{"not_sent":true,"span":"` + runID + `"}}`},
		"Langfuse": {spanOf(attributesOf{"langfuse.observation.type": "generation", "langfuse.observation.model.name": "m", "langfuse.observation.input": `[{"role":"user","content":"Hi"}]`,
			"langfuse.observation.output": `{"role":"assistant","content":"Yes"}`, "langfuse.observation.model.parameters": `{"temperature":1,"max_tokens":5}`}),
			`{"model":"m","payload":{"messages":[{"content":"Hi","role":"user"}]},"output":"Yes","temperature":1,"max_tokens":5}`},
		"MLflow": {spanOf(attributesOf{"mlflow.spanType": `"CHAT_MODEL"`, "mlflow.spanInputs": `{"model":"m","temperature":0.1,"messages":[{"role":"user","content":"Hi"}],"extra_headers":{"Authorization":"secret"}}`,
			"mlflow.spanOutputs": `{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"Yes"}}]}`}),
			`{"model":"m","payload":{"messages":[{"content":"Hi","role":"user"}]},"output":"Yes","temperature":0.1}`},
		"Gemini, by Google's ADK": {spanOf(attributesOf{"gen_ai.system": "gcp.vertex.agent", "gen_ai.request.model": "g",
			"gcp.vertex.agent.llm_request":  `{"model":"g","config":{"temperature":0.2,"system_instruction":"Be brief."},"contents":[{"role":"user","parts":[{"text":"Hi"}]},{"role":"model","parts":[{"function_call":{"id":"a1","name":"f","args":{"x":1}}}]},{"role":"user","parts":[{"function_response":{"id":"a1","name":"f","response":{"y":2}}}]}]}`,
			"gcp.vertex.agent.llm_response": `{"content":{"role":"model","parts":[{"text":"Yes"}]},"finish_reason":"STOP"}`}),
			`{"model":"g","payload":{"messages":[{"content":"Hi","role":"user"},{"role":"assistant","tool_calls":[{"function":{"arguments":"{\"x\":1}","name":"f"},"id":"call_1","type":"function"}]},
			{"content":"{\"y\":2}","name":"f","role":"tool","tool_call_id":"call_1"}]},"system_prompt":"Be brief.","output":"Yes","temperature":0.2}`},
		"OpenAI's Responses": {spanOf(attributesOf{"openinference.span.kind": "LLM", "llm.model_name": "m", "input.value": `{"model":"m","instructions":"Be brief.","input":"Hi","max_output_tokens":7}`,
			"output.value": `{"id":"r","output":[{"type":"reasoning","summary":[]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes"}]}]}`}),
			`{"model":"m","payload":{"messages":[{"content":"Hi","role":"user"}]},"system_prompt":"Be brief.","output":"Yes","max_tokens":7}`},
		"Anthropic's response": {spanOf(attributesOf{"openinference.span.kind": "LLM", "llm.model_name": "m", "input.value": `{"model":"m","system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":"Hi"}]}`,
			"output.value": `{"id":"msg","role":"assistant","type":"message","content":[{"type":"text","text":"Yes"}]}`}),
			`{"model":"m","payload":{"messages":[{"content":"Hi","role":"user"}]},"system_prompt":"Be brief.","output":"Yes"}`},
		"Bedrock's response": {spanOf(attributesOf{"openinference.span.kind": "LLM", "llm.model_name": "m", "input.value": "p",
			"output.value": `{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"t","name":"f","input":{}}}]}}}`}),
			`{"model":"m","payload":{"prompt":"p"},"output":"[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"arguments\":\"{}\",\"name\":\"f\"},\"id\":\"call_1\",\"type\":\"function\"}]}]"}`},
		"completions": {spanOf(attributesOf{"gen_ai.operation.name": "text_completion", "gen_ai.request.model": "m", "gen_ai.prompt": "p", "gen_ai.completion": `{"choices":[{"text":"a","index":0}]}`}),
			`{"model":"m","payload":{"prompt":"p"},"output":"a"}`},
		"the AI SDK": {spanOf(attributesOf{"ai.operationId": "ai.generateText.doGenerate", "gen_ai.system": "openai.chat", "gen_ai.request.model": "m", "ai.prompt.messages": `[{"role":"user","content":[{"type":"text","text":"Hi"}]}]`,
			"ai.response.text": "", "ai.response.toolCalls": `[{"type":"tool-call","toolCallId":"q","toolName":"f","input":"{\"x\":1}"}]`}),
			`{"model":"m","payload":{"messages":[{"content":"Hi","role":"user"}]},"output":"[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"arguments\":\"{\\\"x\\\":1}\",\"name\":\"f\"},\"id\":\"call_1\",\"type\":\"function\"}]}]"}`},
		"an image": {spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
			"gen_ai.input.messages": `[{"role":"user","parts":[{"type":"text","content":"What is this?"},{"type":"uri","modality":"image","uri":"https://example.org/a.png"}]}]`}),
			`{"model":"m","payload":{"messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"uri","modality":"image","uri":"https://example.org/a.png"}]}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			_, m := only(t, read(c.span))
			for _, common := range []string{"labels", "run_id", "timestamp", "usage"} {
				delete(m, common)
			}
			got, err := json.Marshal(m)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(got))
		})
	}
}

func TestOtherSpansAreIgnored(t *testing.T) {
	for name, a := range map[string]attributesOf{
		"HTTP":                  {"http.request.method": "POST"},
		"nothing":               {},
		"embeddings":            {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "m"},
		"a tool":                {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"},
		"an agent":              {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": "[]", "gen_ai.request.model": "m"},
		"a chain":               {"openinference.span.kind": "CHAIN", "input.value": "x", "output.value": "y"},
		"an embedding":          {"openinference.span.kind": "EMBEDDING", "embedding.model_name": "m"},
		"OpenLLMetry steps":     {"traceloop.span.kind": "workflow", "traceloop.entity.input": "x", "gen_ai.system": "openai"},
		"a rerank":              {"llm.request.type": "rerank", "gen_ai.request.model": "m"},
		"a Langfuse span":       {"langfuse.observation.type": "span", "langfuse.observation.input": "x", "gen_ai.request.model": "m"},
		"an embedding, unnamed": {"gen_ai.system": "openai", "gen_ai.request.model": "text-embedding-3-small", "gen_ai.usage.input_tokens": 3},
		"the AI SDK's embed":    {"ai.operationId": "ai.embed.doEmbed", "gen_ai.request.model": "m"},
		"the AI SDK's outer":    {"ai.operationId": "ai.generateText", "ai.model.id": "m", "ai.prompt": "x", "ai.response.text": "y"},
		"a tool, unnamed":       {"gen_ai.system": "openai", "gen_ai.tool.name": "f", "gen_ai.tool.call.id": "c"},
		"a prompt template":     {"gen_ai.prompt.name": "p", "gen_ai.system": "openai"},
	} {
		items := read(spanOf(a))
		require.Len(t, items, 1, name)
		require.Nil(t, items[0].Record, name)
		require.NoError(t, items[0].Err, name)
	}
}

// A seed of 64 bits is the same in every form in which it can be sent.
func TestLargeSeeds(t *testing.T) {
	for name, a := range map[string]attributesOf{
		"text":              {"gen_ai.request.seed": "9223372036854775808"},
		"a double":          {"gen_ai.request.seed": 9223372036854775808.0},
		"a JSON integer":    {"llm.invocation_parameters": `{"seed":9223372036854775808}`},
		"a JSON float":      {"llm.invocation_parameters": `{"seed":9.223372036854775808e18}`},
		"text in JSON":      {"llm.invocation_parameters": `{"seed":"9223372036854775808"}`},
		"text with a point": {"gen_ai.request.seed": "9223372036854775808.0"},
	} {
		a["gen_ai.operation.name"] = "chat"
		item, _ := only(t, read(spanOf(a)))
		require.Contains(t, string(item.Record), `"seed":9223372036854775808,`, name)
	}
}

func TestLogRecords(t *testing.T) {
	at := func(name string, a attributesOf, body any) *logspb.LogRecord {
		r := &logspb.LogRecord{TraceId: traceID, SpanId: spanID, TimeUnixNano: 1764000000000000000, Attributes: a.list(), EventName: name}
		if body != nil {
			r.Body = anyOf(body)
		}
		return r
	}
	t.Run("a log record and a span of one generation have one key", func(t *testing.T) {
		a := attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": structured(t, `[{"role":"user","parts":[{"type":"text","content":"Hello"}]}]`),
			"gen_ai.output.messages": structured(t, `[{"role":"assistant","parts":[{"type":"text","content":"Hi"}]}]`)}
		log, m := only(t, readLogs(at(detailsEvent, a, nil)))
		span, _ := only(t, read(spanOf(a)))
		require.Equal(t, span.IdempotencyKey, log.IdempotencyKey)
		require.Equal(t, "Hi", m["output"])
		inBody, _ := only(t, readLogs(at(detailsEvent, attributesOf{"gen_ai.operation.name": "chat"}, map[string]any(a))))
		require.Equal(t, span.IdempotencyKey, inBody.IdempotencyKey)
	})
	t.Run("messages that are log records of their own", func(t *testing.T) {
		other := at("gen_ai.user.message", nil, map[string]any{"content": "Other"})
		other.SpanId = []byte("another8")
		items := readLogs(
			at("gen_ai.system.message", attributesOf{"gen_ai.system": "openai"}, map[string]any{"content": "Be brief.", "role": "system"}),
			other,
			at("gen_ai.user.message", attributesOf{"gen_ai.system": "openai"}, map[string]any{"content": "Hello"}),
			at("", attributesOf{"event.name": "gen_ai.choice", "gen_ai.request.model": "m"}, map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"content": "Hi"}}),
			at("exception", nil, nil),
		)
		require.Len(t, items, 3)
		require.Nil(t, items[0].Record)
		require.Equal(t, []int{1, 3, 1}, []int{items[0].Count, items[1].Count, items[2].Count})
		_, m := only(t, items[1:2])
		require.Equal(t, []any{"Be brief.", "Hi", "m"}, []any{m["system_prompt"], m["output"], m["model"]})
		require.Equal(t, map[string]any{"messages": []any{map[string]any{"content": "Hello", "role": "user"}}}, m["payload"])
		_, m = only(t, items[2:])
		require.NotContains(t, m, "output")
	})
	t.Run("messages without their texts", func(t *testing.T) {
		var payloads []any
		for _, id := range []string{"spanid 8", "another8"} {
			records := []*logspb.LogRecord{
				at("gen_ai.system.message", attributesOf{"gen_ai.system": "openai"}, nil),
				at("gen_ai.user.message", attributesOf{"gen_ai.system": "openai"}, nil),
				at("gen_ai.choice", attributesOf{"gen_ai.system": "openai"}, map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant"}}),
			}
			for _, r := range records {
				r.SpanId = []byte(id)
			}
			_, m := only(t, readLogs(records...))
			require.Equal(t, true, m["payload"].(map[string]any)["not_sent"])
			require.NotContains(t, m, "output")
			require.NotContains(t, m, "system_prompt")
			payloads = append(payloads, m["payload"])
		}
		require.NotEqual(t, payloads[0], payloads[1])
	})
	t.Run("without ids", func(t *testing.T) {
		record := func(nanos uint64) *logspb.LogRecord {
			r := at(detailsEvent, attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.prompt": "p", "gen_ai.completion": "c"}, nil)
			r.TraceId, r.SpanId, r.TimeUnixNano = nil, make([]byte, 8), nanos
			return r
		}
		items := readLogs(record(1e18), record(1e18), record(2e18))
		require.Len(t, items, 3)
		require.Equal(t, items[0].IdempotencyKey, items[1].IdempotencyKey)
		require.NotEqual(t, items[0].IdempotencyKey, items[2].IdempotencyKey)
		say := func(name, text string) *logspb.LogRecord {
			r := at(name, nil, map[string]any{"content": text, "message": text})
			r.TraceId, r.SpanId = nil, nil
			return r
		}
		items = readLogs(say("gen_ai.user.message", "a"), say("gen_ai.choice", "b"), say("gen_ai.user.message", "c"), say("gen_ai.choice", "d"))
		require.Len(t, items, 2)
		_, m := only(t, items[1:])
		require.Equal(t, "d", m["output"])
		two := append(resourceLogs(say("gen_ai.user.message", "a")), resourceLogs(say("gen_ai.user.message", "c"), say("gen_ai.choice", "d"))...)
		two[0].Resource = &resourcepb.Resource{Attributes: attributesOf{"service.name": "other"}.list()}
		items = slices.Collect(usual.ReadLogRecords(two))
		require.Len(t, items, 2)
		for i, service := range []string{"other", "chat-web"} {
			_, m := only(t, items[i:i+1])
			require.Equal(t, service, m["labels"].(map[string]any)["service"])
		}
	})
}

// A framework's span and the provider's span within it report the same response and therefore get the
// same key. Spans that are merely similar get different keys.
func TestSpansAroundOneGeneration(t *testing.T) {
	span := func(id, response, input, output string, more attributesOf) *tracepb.Span {
		a := attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.prompt": input, "gen_ai.completion": output}
		if response != "" {
			a["gen_ai.response.id"] = response
		}
		for name, v := range more {
			a[name] = v
		}
		s := spanOf(a)
		s.SpanId = []byte(id)
		return s
	}
	key := func(s *tracepb.Span) string { return read(s)[0].IdempotencyKey }
	provider := key(span("span 001", "r1", "p", "c", nil))
	require.Equal(t, provider, key(span("span 002", "r1", "p", "c", attributesOf{"gen_ai.request.model": "other name", "gen_ai.request.top_p": 0.5})))
	require.NotEqual(t, provider, key(span("span 002", "r2", "p", "c", nil)))
	require.NotEqual(t, provider, key(span("span 002", "r1", "q", "c", nil)))
	require.NotEqual(t, provider, key(span("span 002", "r1", "p", "d", nil)))
	elsewhere := span("span 001", "r1", "p", "c", nil)
	elsewhere.TraceId = []byte("another trace id")
	require.NotEqual(t, provider, key(elsewhere), "providers on the local machine repeat their ids")
	require.NotEqual(t, key(span("span 001", "", "p", "c", nil)), key(span("span 002", "", "p", "c", nil)))
}

// The record of a failed generation contains the type of the exception, but not its message.
func TestFailedGeneration(t *testing.T) {
	span := spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.prompt": "p"},
		eventOf("exception", attributesOf{"exception.type": "openai.APITimeoutError", "exception.message": "private"}))
	span.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	item, m := only(t, read(span))
	require.Equal(t, "openai.APITimeoutError", m["labels"].(map[string]any)["error"])
	require.NotContains(t, string(item.Record), "private")
	require.NotContains(t, m, "output")
}

// Generations whose inputs were not sent have different payloads and keys.
func TestInputsThatWereNotSentDiffer(t *testing.T) {
	a, b := spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}), spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
	b.SpanId = []byte("another8")
	items := read(a, b)
	require.NotEqual(t, items[0].IdempotencyKey, items[1].IdempotencyKey)
	_, first := only(t, items[:1])
	_, second := only(t, items[1:])
	require.NotEqual(t, first["payload"], second["payload"])
}

func TestLabelsFit(t *testing.T) {
	long := strings.Repeat("é", 100)
	span := spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.conversation.id": long + "a", "gen_ai.response.id": long + "b"})
	item, m := only(t, read(span))
	values := m["labels"].(map[string]any)
	for _, name := range []string{"conversation", "response_id"} {
		require.LessOrEqual(t, len(values[name].(string)), 128)
		require.True(t, strings.HasPrefix(values[name].(string), "éé"))
	}
	require.NotEqual(t, values["conversation"], values["response_id"])
	few := slices.Collect(LabelLimits{MaxLabels: 2, MaxValueBytes: 40}.ReadSpans(resourceSpans(span)))
	require.Contains(t, string(few[0].Record), `"labels":{"span_id":"7370616e69642038","trace_id":"7472616365206964206f662031362042"}`)
	require.Equal(t, item.IdempotencyKey, few[0].IdempotencyKey, "labels must not be part of the key")
}

func TestBounds(t *testing.T) {
	many := attributesOf{"gen_ai.operation.name": "chat"}
	for i := range MaxAttributes {
		many[fmt.Sprintf("gen_ai.prompt.%d.content", i)] = "x"
	}
	deep := any("x")
	for range MaxAttributeDepth + 1 {
		deep = []any{deep}
	}
	for name, span := range map[string]*tracepb.Span{
		"attributes": spanOf(many),
		"depth":      spanOf(attributesOf{"gen_ai.operation.name": "chat", "gen_ai.input.messages": deep}),
		"an event":   spanOf(attributesOf{"gen_ai.operation.name": "chat"}, eventOf("gen_ai.user.message", attributesOf{"content": deep})),
	} {
		items := read(span)
		require.Len(t, items, 1, name)
		require.Error(t, items[0].Err, name)
		require.Equal(t, "span 7370616e69642038 of trace 7472616365206964206f662031362042", items[0].Source, name)
	}
	dots := "gen_ai.prompt.0" + strings.Repeat(".a", 1_000_000)
	_, m := only(t, read(spanOf(attributesOf{"gen_ai.operation.name": "chat", dots: "x"})))
	require.Equal(t, true, m["payload"].(map[string]any)["not_sent"])
}

// Every attribute, parameter, and label is mentioned in docs/otlp.md.
func TestDocumentedAttributes(t *testing.T) {
	text, err := os.ReadFile("../../docs/otlp.md")
	require.NoError(t, err)
	for _, list := range [][]string{operationNames, modelNames, answererNames, fingerprintNames, temperatureNames, maxTokensNames, seedNames, instructionNames, messageNames,
		promptNames, answerNames, completionNames, toolNames, parameterNames, kindNames, {callsName, eventsName, contentName, detailsEvent}, invokedMaxTokens, invokedSeed} {
		for _, name := range list {
			require.Contains(t, string(text), "`"+name+"`")
		}
	}
	for _, list := range [][]string{messagePrefixes, completionPrefixes, toolPrefixes} {
		for _, prefix := range list {
			require.Contains(t, string(text), "`"+prefix+".N.")
		}
	}
	for _, table := range [][]named{parameters, counts, labels, resourceLabels} {
		for _, row := range table {
			require.Contains(t, string(text), "`"+row.member+"`")
			for _, name := range row.names {
				require.Contains(t, string(text), "`"+name+"`")
			}
		}
	}
	for _, set := range []map[string]bool{invocation, generations, otherOperations} {
		for name := range set {
			require.Contains(t, string(text), "`"+name+"`")
		}
	}
	for name := range messageEvents {
		require.Contains(t, string(text), "`"+name+"`")
	}
}
