// Package revision reads and writes the records of stacks in the terms of templates: what the API layer of
// CloudFormation records, and the controller of stacks carries out.
package revision

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/coracle-eks/coracle/internal/cloudformation/plan"
	"github.com/coracle-eks/coracle/internal/cloudformation/template"
	"github.com/coracle-eks/coracle/internal/record"
)

var (
	encoder, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	decoder, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDecompressed))
)

// maxDecompressed is the size of the largest text that is decompressed, in bytes.
const maxDecompressed = 16 << 20

// Compress returns the body of a StackTemplate.
func Compress(text string) []byte { return encoder.EncodeAll([]byte(text), nil) }

// DecompressedSize returns the size of the text of a compressed body, in bytes.
func DecompressedSize(body []byte) int64 {
	var header zstd.Header
	if err := header.Decode(body); err != nil {
		return 0 // Decompress says what is wrong with it
	}
	return int64(min(header.FrameContentSize, maxDecompressed))
}

// Decompress returns the text of a StackTemplate.
func Decompress(body []byte) (string, error) {
	text, err := decoder.DecodeAll(body, nil)
	if err != nil {
		return "", fmt.Errorf("decompress a template: %w", err)
	}
	return string(text), nil
}

// Pseudo returns the values of pseudo parameters in a stack.
func Pseudo(v record.Stack) template.Pseudo {
	return template.Pseudo{AccountID: v.Account, Region: v.Region, Partition: "aws", URLSuffix: "amazonaws.com",
		StackID: v.ARN(), StackName: v.Name}
}

// Inputs returns what the template of a revision is bound with: the values that were checked when it was recorded.
func Inputs(v record.Stack, revision record.StackRevision) template.Inputs {
	in := template.Inputs{Parameters: map[string]template.ParameterInput{}, Pseudo: Pseudo(v)}
	for _, p := range revision.Parameters {
		in.Parameters[p.Key] = template.ParameterInput{Value: p.Value, Resolved: p.Resolved, Text: p.Text}
	}
	return in
}

// ResourceTags returns the tags that a resource gets from its stack.
func ResourceTags(v record.Stack, tags map[string]string, logicalID string) map[string]string {
	all := maps.Clone(tags)
	if all == nil {
		all = map[string]string{}
	}
	all["aws:cloudformation:stack-name"] = v.Name
	all["aws:cloudformation:stack-id"] = v.ARN()
	all["aws:cloudformation:logical-id"] = logicalID
	return all
}

// Resource returns a resource of a stack as plans have it.
func Resource(p record.StackPhysical) (plan.Resource, error) {
	r := plan.Resource{Type: p.Type, PhysicalID: p.PhysicalID, Ref: p.Ref, Tags: p.Tags}
	for text, into := range map[*json.RawMessage]any{&p.Attributes: &r.Attributes, &p.Properties: &r.Properties,
		&p.Metadata: &r.Metadata} {
		if err := Decode(*text, into); err != nil {
			return r, fmt.Errorf("decode resource %s: %w", p.PhysicalID, err)
		}
	}
	return r, nil
}

// Decode decodes JSON as templates are: numbers keep their text. Without a text it does nothing.
func Decode(text json.RawMessage, into any) error {
	if len(text) == 0 {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	return d.Decode(into)
}

// WaitConditionPrefix is the path prefix of the URLs of wait condition handles.
const WaitConditionPrefix = "/cloudformation-waitcondition/"

// WaitConditionURL returns the URL of a wait condition handle, which proves by its token that its holder got it from
// the stack.
func WaitConditionURL(endpoint string, v record.Stack, logicalID, token string) string {
	return strings.TrimSuffix(endpoint, "/") + WaitConditionPrefix + strings.Join([]string{v.Account, v.Region, v.ID,
		logicalID}, "/") + "?token=" + url.QueryEscape(token)
}
