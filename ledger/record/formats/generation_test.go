package formats

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
)

// exports lists exports from the supported tools, each with the records that converting it must
// yield.
var exports = []struct {
	name     string
	format   Format
	native   string
	records  []string // in JSON; "" for a value that is not a generation
	outcomes map[string]string
}{
	{
		name: "an observation of Langfuse's API", format: Langfuse,
		native: `{"id":"0123456789abcdef","traceId":"0af7651916cd43dd8448eb211c80319c","type":"GENERATION","name":"answer","startTime":"2026-01-02T03:04:05.678Z",
			"endTime":"2026-01-02T03:04:06.678Z","model":"gpt-4o","modelParameters":{"temperature":0.5,"max_tokens":64,"top_p":0.9,"api_key":"secret","seed":null},
			"input":[{"role":"system","content":"Be brief."},{"role":"user","content":"Why?"}],"output":{"role":"assistant","content":"Because."},
			"usageDetails":{"input":10,"output":2,"total":12},"usage":{"unit":"TOKENS","input":10},"promptName":"why","promptVersion":3,"sessionId":null,"level":"DEFAULT",
			"metadata":{"team":"a"},"version":null,"parentObservationId":null}`,
		records: []string{`{"labels":{"level":"DEFAULT","name":"answer","prompt_name":"why","prompt_version":"3","span_id":"0123456789abcdef","trace_id":"0af7651916cd43dd8448eb211c80319c","usageDetails/total":"12"},
			"max_tokens":64,"model":"gpt-4o","output":"Because.","payload":{"messages":[{"content":"Why?","role":"user"}],"top_p":0.9},
			"run_id":"0af7651916cd43dd8448eb211c80319c-0123456789abcdef","system_prompt":"Be brief.","temperature":0.5,"timestamp":"2026-01-02T03:04:05.678000Z",
			"usage":{"duration_ms":1000,"imported":{"metadata":{"team":"a"},"usage":{"input":10,"unit":"TOKENS"}},"input_tokens":10,"output_tokens":2}}`},
		outcomes: map[string]string{
			"/input": "taken as payload/messages and system_prompt", "/output": "taken as output", "/modelParameters/temperature": "taken as temperature",
			"/modelParameters/top_p":   "taken as payload/top_p",
			"/modelParameters/api_key": "left the parameter is not known to affect the output and could be a credential", "/version": "left the value is null",
			"/usageDetails/total": "kept as label usageDetails/total", "/metadata": "kept as content usage/imported/metadata", "/startTime": "taken as timestamp",
		},
	},
	{
		name: "a row of Langfuse's export to blob storage, with texts that are not chats", format: Langfuse,
		native: `{"id":"a-b","trace_id":"c-d","type":"GENERATION","start_time":"2026-01-02 03:04:05.678000","provided_model_name":"claude-2","model_parameters":"{\"temperature\":\"1\"}",
			"input":"Why?","output":"Because.","level":"ERROR","user_id":"ana"}`,
		records: []string{`{"labels":{"error":"error","span_id":"a-b","trace_id":"c-d","user_id":"ana"},"model":"claude-2","output":"Because.","payload":{"prompt":"Why?"},"temperature":1,
			"timestamp":"2026-01-02T03:04:05.678000Z"}`},
		outcomes: map[string]string{"/input": "taken as payload/prompt", "/id": "kept as label span_id", "/level": "taken as labels/error"},
	},
	{
		name: "a page of Langfuse with a span", format: Langfuse,
		native:  `{"data":[{"id":"1","type":"SPAN","input":"x"},{"id":"2","type":"GENERATION","model":"m","input":"x","output":"y"}],"cursor":null,"meta":{"page":1}}`,
		records: []string{"", `{"labels":{"span_id":"2"},"model":"m","output":"y","payload":{"prompt":"x"}}`, ""},
		outcomes: map[string]string{"/data/0": "left an observation of type SPAN is not a generation", "/data/1/model": "taken as model",
			"/cursor": "left the value is null", "/meta": "left the member applies to the whole page or trace"},
	},
	{
		name: "a trace of MLflow 3", format: MLflow,
		native: `{"info":{"trace_id":"tr-0af7651916cd43dd8448eb211c80319c","trace_metadata":{"mlflow.trace.session":"s-1"}},"data":{"spans":[
			{"trace_id":"Cvd2UZFs1D3USOshHIAxnA==","span_id":"ASNFZ4mrze8=","parent_span_id":"","name":"agent","start_time_unix_nano":1767323045678000000,"attributes":{"mlflow.spanType":"\"AGENT\""}},
			{"trace_id":"CvdlGRbNQ92ESOshHIAxnA==","span_id":"ASNFZ4mrze8=","parent_span_id":"AAAAAAAAAAE=","name":"Completions","start_time_unix_nano":1767323045678000000,"end_time_unix_nano":1767323046678000000,
			"events":[],"status":{"code":"STATUS_CODE_OK","message":""},"attributes":{"mlflow.traceRequestId":"\"tr-0af7651916cd43dd8448eb211c80319c\"","mlflow.spanType":"\"CHAT_MODEL\"",
			"mlflow.spanInputs":"{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"Why?\"}],\"model\":\"gpt-4o\",\"temperature\":0.5,\"max_tokens\":64,\"tools\":[{\"type\":\"function\"}],\"stream\":false}",
			"mlflow.spanOutputs":"{\"id\":\"x\",\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"Because.\"}}]}","mlflow.chat.tokenUsage":"{\"input_tokens\":10,\"output_tokens\":2,\"total_tokens\":12}","mlflow.llm.provider":"\"openai\""}}]}}`,
		records: []string{"", `{"labels":{"mlflow.chat.tokenUsage/total_tokens":"12","conversation":"s-1","name":"Completions","parent_span_id":"0000000000000001","provider":"openai",
			"span_id":"0123456789abcdef","trace_id":"0af7651916cd43dd8448eb211c80319c"},"max_tokens":64,"model":"gpt-4o","output":"Because.",
			"payload":{"messages":[{"content":"Why?","role":"user"}],"tools":[{"type":"function"}]},"run_id":"0af7651916cd43dd8448eb211c80319c-0123456789abcdef",
			"system_prompt":"Be brief.","temperature":0.5,"timestamp":"2026-01-02T03:04:05.678000Z","usage":{"duration_ms":1000,"input_tokens":10,"output_tokens":2}}`, ""},
		outcomes: map[string]string{"/data/spans/0": "left a span of type AGENT is not a generation", "/info": "left the member applies to the whole trace",
			"/data/spans/1/attributes/mlflow.spanInputs": "taken as payload/messages and system_prompt", "/data/spans/1/attributes/mlflow.spanOutputs": "taken as output"},
	},
	{
		name: "a row of mlflow.search_traces, with OpenAI's Responses", format: MLflow,
		native: `{"trace_id":"tr-1","request":"{}","spans":[{"trace_id":"tr-0af7651916cd43dd8448eb211c80319c","otel_trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"0123456789abcdef","parent_span_id":null,"name":"Responses",
			"start_time_unix_nano":1767323045678000000,"attributes":{"mlflow.spanType":"\"LLM\"","mlflow.spanInputs":"{\"input\":\"Why?\",\"instructions\":\"Be brief.\",\"model\":\"gpt-4o\",\"max_output_tokens\":9}",
			"mlflow.spanOutputs":"\"Because.\""}}],"state":"OK"}`,
		records: []string{`{"labels":{"name":"Responses","span_id":"0123456789abcdef","trace_id":"0af7651916cd43dd8448eb211c80319c"},"max_tokens":9,"model":"gpt-4o","output":"Because.",
			"payload":{"messages":[{"content":"Why?","role":"user"}]},"run_id":"0af7651916cd43dd8448eb211c80319c-0123456789abcdef","system_prompt":"Be brief.","timestamp":"2026-01-02T03:04:05.678000Z"}`, ""},
		outcomes: map[string]string{"/request": "left the member applies to the whole trace"},
	},
	{
		name: "a row of Phoenix's dataframe", format: Phoenix,
		native: `{"name":"ChatCompletion","span_kind":"LLM","parent_id":null,"start_time":1767323045678,"end_time":"2026-01-02T03:04:06.678+00:00","status_code":"OK","status_message":"","events":[],
			"context.span_id":"0123456789abcdef","context.trace_id":"0af7651916cd43dd8448eb211c80319c","attributes.llm.model_name":"gpt-4o","attributes.llm.invocation_parameters":"{\"temperature\": 0.5, \"max_tokens\": 64, \"top_p\": 0.9}",
			"attributes.llm.input_messages":[{"message.role":"system","message.content":"Be brief."},{"message.role":"user","message.contents":[{"message_content.type":"text","message_content.text":"Why?"}]}],
			"attributes.llm.output_messages":[{"message.role":"assistant","message.content":"Because."}],"attributes.input.value":"{}","attributes.input.mime_type":"application/json","attributes.output.value":"{}",
			"attributes.llm.token_count.prompt":10.0,"attributes.llm.token_count.completion":2,"attributes.metadata":{"team":"a"},"attributes.llm.tools":[{"tool.json_schema":"{\"type\":\"function\"}"}]}`,
		records: []string{`{"labels":{"name":"ChatCompletion","span_id":"0123456789abcdef","status_message":"","trace_id":"0af7651916cd43dd8448eb211c80319c"},"max_tokens":64,"model":"gpt-4o","output":"Because.",
			"payload":{"messages":[{"content":"Why?","role":"user"}],"tools":[{"type":"function"}],"top_p":0.9},"run_id":"0af7651916cd43dd8448eb211c80319c-0123456789abcdef","system_prompt":"Be brief.",
			"temperature":0.5,"timestamp":"2026-01-02T03:04:05.678000Z","usage":{"duration_ms":1000,"imported":{"events":[],"metadata":{"team":"a"}},"input_tokens":10,"output_tokens":2}}`},
		outcomes: map[string]string{"/attributes.input.value": "left the messages contain the same text", "/attributes.llm.input_messages": "taken as payload/messages and system_prompt",
			"/attributes.llm.token_count.prompt": "taken as usage/input_tokens", "/attributes.metadata": "kept as content usage/imported/metadata"},
	},
	{
		name: "a page of Phoenix's API, with nested attributes", format: Phoenix,
		native: `{"data":[{"id":"x","name":"chain","span_kind":"CHAIN"},{"name":"llm","context":{"trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"0123456789abcdef"},"span_kind":"LLM","status_code":"ERROR",
			"start_time":"2026-01-02T03:04:05.678Z","attributes":{"llm":{"model_name":"m","input_messages":[{"message":{"role":"user","content":"Why?"}}]},"output":{"value":"Because."}}}],"next_cursor":null}`,
		records: []string{"", `{"labels":{"error":"error","name":"llm","span_id":"0123456789abcdef","trace_id":"0af7651916cd43dd8448eb211c80319c"},"model":"m","output":"Because.",
			"payload":{"messages":[{"content":"Why?","role":"user"}]},"run_id":"0af7651916cd43dd8448eb211c80319c-0123456789abcdef","timestamp":"2026-01-02T03:04:05.678000Z"}`, ""},
		outcomes: map[string]string{"/data/0": "left a span of kind CHAIN is not a generation", "/data/1/attributes/llm/model_name": "taken as model"},
	},
}

func TestExports(t *testing.T) {
	o := Options{Limits: record.DefaultLimits()}
	for _, c := range exports {
		t.Run(c.name, func(t *testing.T) {
			conversions, err := c.format.Convert([]byte(c.native), o)
			require.NoError(t, err)
			require.Len(t, conversions, len(c.records))
			outcomes := make(map[string]string)
			for i, e := range conversions {
				for _, m := range e.MemberOutcomes {
					require.NotContains(t, outcomes, m.Pointer, "each member is accounted for once")
					outcomes[m.Pointer] = fmt.Sprintf("%s %s", m.Outcome, m.Detail)
				}
				if c.records[i] == "" {
					require.Empty(t, e.Kind)
					continue
				}
				require.NoError(t, e.Check(record.DefaultLimits()), "%s %s", e.Record, e.FailureReason)
				require.JSONEq(t, c.records[i], string(e.Record))
				again, err := c.format.Convert([]byte(c.native), o)
				require.NoError(t, err)
				require.Equal(t, e.Key, again[i].Key)
				require.Equal(t, string(e.Record), string(again[i].Record))
			}
			for pointer, want := range c.outcomes {
				require.Equal(t, want, outcomes[pointer], pointer)
			}
		})
	}
}

// The labels that describe the generation itself come before those of other members.
func TestOwnLabelsComeFirst(t *testing.T) {
	native := `{"span_kind":"LLM","context.trace_id":"0af7651916cd43dd8448eb211c80319c","context.span_id":"0123456789abcdef"`
	for i := range 40 {
		native += fmt.Sprintf(`,"attributes.a%d":%d`, i, i)
	}
	native += `,"attributes.llm.model_name":"m","attributes.llm.provider":"openai","attributes.llm.system":"azure","attributes.llm.prompt_template.version":"v7","attributes.input.value":"p"}`
	e, r := only(t, Phoenix, native, *berlin)
	requireAccounted(t, []byte(native), []Conversion{e})
	require.NoError(t, e.Check(berlin.Limits))
	labels := r.Member("labels")
	for name, want := range map[string]string{"prompt_version": "v7", "provider": "openai", "trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "0123456789abcdef"} {
		require.Equal(t, want, string(labels.Member(name).Text()))
	}
	require.Equal(t, "taken as labels/prompt_version", outcomeOf(t, e, "/attributes.llm.prompt_template.version"))
	require.Equal(t, "kept as content usage/imported/llm.system", outcomeOf(t, e, "/attributes.llm.system"))
	require.Equal(t, "azure", string(r.Member("usage").Member("imported").Member("llm.system").Text()))
}

// A member that the record does not have is never reported as taken.
func TestParametersThatCannotBeRecorded(t *testing.T) {
	e, r := only(t, Langfuse, `{"type":"GENERATION","model":"m","input":[],"output":[{"role":"assistant"}],"promptVersion":3,"endTime":"2026-01-02T03:04:05Z",
		"modelParameters":{"seed":1.5,"max_tokens":"inf","max_completion_tokens":"7","max_output_tokens":8,"model":"n","temperature":0.5,"top_k":5.0}}`, *berlin)
	require.Equal(t, "7", string(r.Member("max_tokens").Raw()))
	for pointer, want := range map[string]string{
		"/modelParameters/seed":                  "left the value cannot be recorded as seed",
		"/modelParameters/max_tokens":            "left the record has another value as max_tokens",
		"/modelParameters/max_completion_tokens": "taken as max_tokens",
		"/modelParameters/max_output_tokens":     "left the record has another value as max_tokens",
		"/modelParameters/model":                 "left the record has another value as model",
		"/modelParameters/temperature":           "taken as temperature",
		"/modelParameters/top_k":                 "taken as payload/top_k",
		"/promptVersion":                         "taken as labels/prompt_version",
		"/endTime":                               "left the value cannot be recorded as usage/duration_ms",
		"/input":                                 "left the input has no content",
		"/output":                                "left the value cannot be recorded as output",
	} {
		require.Equal(t, want, outcomeOf(t, e, pointer))
	}
	// The parameters name the requested model, so the model of the span is the one that answered.
	e, r = only(t, Phoenix, `{"span_kind":"LLM","attributes.llm.model_name":"m-1","attributes.llm.invocation_parameters":"{\"model\":\"m\"}","attributes.llm.token_count.prompt":-1}`, *berlin)
	require.Equal(t, "m", string(r.Member("model").Text()))
	require.Equal(t, "taken as environment/model_digest", outcomeOf(t, e, "/attributes.llm.model_name"))
	require.Equal(t, "kept as label llm.token_count.prompt", outcomeOf(t, e, "/attributes.llm.token_count.prompt"))
}

func FuzzExports(f *testing.F) {
	for _, c := range exports {
		f.Add(string(c.format), []byte(c.native))
	}
	f.Add("phoenix", []byte(`{"span_kind":"LLM","attributes.llm.input_messages":[{"a.b.c":{"d.e":1},"a":2,"a\".b":3}],"attributes.llm.tools":[1]}`))
	f.Fuzz(func(t *testing.T, format string, native []byte) {
		parsed, err := Parse(format, ImportFormats)
		if err != nil || !parsed.IsExport() {
			return
		}
		o := Options{Limits: record.DefaultLimits()}
		conversions, err := parsed.Convert(native, o)
		if err != nil {
			return
		}
		for _, e := range conversions {
			if e.Kind == "" || e.Record == nil {
				continue
			}
			require.NoError(t, e.Check(o.Limits), "%s", e.Record)
		}
	})
}
