package template

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"
)

// seeds are templates that have all of the language.
func seeds(f *testing.F) []string {
	return append([]string{
		"", "{}", "a: b", gateway, "Resources: !Foo {}", vpc("!Sub '${a}'"),
		readTestdata(f, "platform.yaml"), readTestdata(f, "cluster.json"),
		extended("Parameters: {P: {Type: CommaDelimitedList, Default: 'a,b-c'}}\nResources:\n" +
			"  Fn::ForEach::L: [I, !Ref P, {'V&{I}': {Type: AWS::EC2::VPC, DeletionPolicy: !If [C, Retain, Delete], Properties: " +
			"{CidrBlock: !Select [0, !Cidr [10.0.0.0/8, !FindInMap [M, !Ref I, n, {DefaultValue: 2}], 8]]," +
			" Tags: [{Key: a, Value: {'Fn::ToJsonString': [!Ref I]}}]}}}]\n" +
			"Conditions: {C: !Or [!Equals [a, !Ref AWS::Region], !Not [!Equals [{'Fn::Length': !Ref P}, '2']]]}\nMappings: {M: {a: {n: 3}}}\n"),
		"Parameters: {P: {Type: Number, MinValue: 1, MaxValue: 2e1, Default: 10}, Q: {Type: String, AllowedPattern: '(?=a).*', " +
			"Default: a}}\nRules: {R: {RuleCondition: !Contains [[a], !Ref Q], Assertions: [{Assert: " +
			"{'Fn::EachMemberIn': [{'Fn::RefAll': Number}, ['10']]}, AssertDescription: x}]}}\n" + gateway,
		vpc("'{{resolve:ssm:/a/b:1}}{{resolve:ssm-secure:c}}'") +
			"Outputs: {O: {Value: !Join ['', !Split [',', !Sub '${V},${V.CidrBlock}']], Export: {Name: !Sub '${AWS::StackName}:x'}}}\n",
	}, "\"\\ud800\"", "a: &a [*a]", "? {a: b}\n: c", "%YAML 1.1\n---\na: 1", "{\"Resources\": {\"V\": {\"Type\": 1e5}}}")
}

// FuzzParse shows that Parse returns a template or an error that can be shown, whatever it is given.
func FuzzParse(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		parsed, err := Parse(body)
		if err != nil {
			checkError(t, err)
			return
		}
		if _, err := json.Marshal(parsed.Summary()); err != nil {
			t.Errorf("the summary: %v", err)
		}
		parsed.Capabilities()
		if text, err := json.Marshal(parsed.root); err != nil {
			t.Errorf("the values: %v", err)
		} else if again, err := Parse(string(text)); err != nil && len(text) <= MaxBody {
			t.Errorf("its JSON is refused: %v", err)
		} else if err == nil {
			if second, err := json.Marshal(again.root); err != nil || string(second) != string(text) {
				t.Errorf("its JSON is another template: %s, %s, %v", text, second, err)
			}
		}
	})
}

func checkError(t *testing.T, err error) {
	t.Helper()
	var fault *Error
	if !errors.As(err, &fault) {
		t.Errorf("not an error of the template: %v", err)
	}
	if err.Error() == "" || len(err.Error()) > maxMessage+10 || !utf8.ValidString(err.Error()) {
		t.Errorf("an error that cannot be shown: %q", err.Error())
	}
}

// FuzzBind shows that what Bind accepts can be evaluated, before and after its resources exist, in an order in which
// each resource comes after those that it needs.
func FuzzBind(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed, "a")
	}
	f.Fuzz(func(t *testing.T, body, value string) {
		parsed, err := Parse(body)
		if err != nil {
			return
		}
		inputs := platformInputs(make(map[string]ParameterInput))
		for _, name := range parsed.Parameters() {
			if len(name)%2 == 0 {
				inputs.Parameters[name] = ParameterInput{Value: value}
			}
		}
		ctx := context.Background()
		b, err := parsed.Bind(ctx, inputs)
		if err != nil {
			checkError(t, err)
			return
		}
		if _, err := b.Processed(); err != nil {
			t.Error(err)
		}
		known := make(map[string]bool)
		for len(known) < len(b.LogicalIDs()) {
			before := len(known)
			for _, id := range b.LogicalIDs() {
				ready := !known[id]
				for _, need := range b.Dependencies(id) {
					ready = ready && known[need]
				}
				if ready {
					evaluateResource(t, b, id, known)
					known[id] = true
				}
			}
			if len(known) == before {
				t.Fatal("resources wait for each other")
			}
		}
		if _, err := b.Outputs(ctx, some{known}); err != nil {
			checkError(t, err)
		}
	})
}

// evaluateResource evaluates a resource as if those that are known existed, and no others.
func evaluateResource(t *testing.T, b *Bound, id string, known map[string]bool) {
	t.Helper()
	properties, err := b.Properties(context.Background(), id, some{known})
	if err != nil {
		checkError(t, err)
		return
	}
	if hasUnknown(properties) {
		t.Errorf("%s needs a resource that it does not depend on: %v", id, properties)
	}
	if _, err := json.Marshal(properties); err != nil {
		t.Error(err)
	}
}

// some is a State in which some resources exist.
type some struct{ known map[string]bool }

func (s some) Ref(id string) (string, bool) { return "ref-" + id, s.known[id] }

func (s some) Attribute(id, name string) (any, bool, error) { return "att-" + name, s.known[id], nil }
