// Package resourcetest has what the tests of all handlers of resource types share: it compares their tables with the
// public schemas, and what they put into API calls with the types of the SDK; and it takes resources through their
// lives against real services, with every answer lost once.
package resourcetest

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/coracle-eks/coracle/internal/cloudformation/schema"
	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// CheckTypes fails the test unless the types of a table are those of the schemas that begin with prefix, such as
// "AWS::EC2::", without the types in except, and each does with its properties what its schema says.
func CheckTypes(t *testing.T, types map[string]resource.Type, prefix string, except ...string) {
	t.Helper()
	for _, name := range schema.Names() {
		if _, served := types[name]; strings.HasPrefix(name, prefix) && served == slices.Contains(except, name) {
			t.Errorf("%s: served %t", name, served)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t.Run(strings.TrimPrefix(name, prefix), func(t *testing.T) {
			t.Parallel()
			wanted, ok := schema.Of(name)
			if !ok {
				t.Fatal("it has no schema")
			}
			checkDeclared(t, types[name], wanted)
			checkUpdates(t, types[name], wanted)
			checkMembers(t, types[name], wanted)
		})
	}
}

// checkDeclared demands that what a type names are properties and attributes.
func checkDeclared(t *testing.T, of resource.Type, wanted *schema.Type) {
	for _, property := range slices.Concat(of.Refused, of.Names) {
		if wanted.Properties[property] == nil {
			t.Errorf("%s is no property", property)
		}
	}
	for _, attribute := range of.Volatile {
		if !wanted.HasAttribute(attribute) {
			t.Errorf("%s is no attribute", attribute)
		}
	}
	if tagged := wanted.TagProperty != ""; tagged && !of.Tagged {
		t.Errorf("its resources have tags")
	}
}

// checkUpdates demands that every property that can change in place is one that the handler changes.
func checkUpdates(t *testing.T, of resource.Type, wanted *schema.Type) {
	updatable, known := resource.Updatable(of.Handler)
	if !known {
		return
	}
	for name, property := range wanted.Properties {
		changes := slices.Contains(updatable, name)
		switch {
		case slices.Contains(of.Refused, name):
		case slices.Contains(of.Fixed, name):
			if changes {
				t.Errorf("%s can change", name)
			}
		case property.RequiresRecreation != schema.Always && !changes:
			t.Errorf("a change of %s does nothing", name)
		}
	}
	for _, name := range updatable {
		if wanted.Properties[name] == nil {
			t.Errorf("%s, which is changed, is no property", name)
		}
	}
}

// checkMembers has the handler create a resource with each property, and with each one inside of it, and demands that
// it takes them.
func checkMembers(t *testing.T, of resource.Type, wanted *schema.Type) {
	for name, property := range wanted.Properties {
		if slices.Contains(of.Refused, name) {
			continue
		}
		for _, sample := range samples(property.Type, nil) {
			_, err := of.Create(t.Context(), &resource.Request{
				Config: nowhere(), Account: "111122223333", Region: "eu-west-1", Partition: "aws", StackID: "stack",
				StackName: "stack", LogicalID: "Thing", Name: "stack-Thing-1", Token: "token",
				Properties: map[string]any{name: sample}, Now: time.Now,
			})
			if err != nil && strings.HasSuffix(err.Error(), "is not supported by coracle") {
				t.Error(err)
			}
		}
	}
}

// samples returns values of a type: one for each property inside of it.
func samples(of *schema.Value, within []*schema.Definition) []any {
	switch of.Kind {
	case schema.List:
		return wrap(samples(of.Element, within), func(value any) any { return []any{value} })
	case schema.Map:
		return wrap(samples(of.Element, within), func(value any) any { return map[string]any{"a": value} })
	case schema.OneOf:
		var all []any
		for _, alternative := range of.Alternatives {
			all = append(all, samples(alternative, within)...)
		}
		return all
	case schema.TagPair:
		return []any{map[string]any{"Key": "a", "Value": "1"}}
	case schema.JSON:
		return []any{map[string]any{"Version": "2012-10-17"}}
	case schema.Boolean:
		return []any{true}
	case schema.Object:
		if slices.Contains(within, of.Definition) {
			return nil
		}
		var all []any
		for name, property := range of.Definition.Properties {
			all = append(all, wrap(samples(property.Type, append(slices.Clone(within), of.Definition)),
				func(value any) any { return map[string]any{name: value} })...)
		}
		return all
	}
	return []any{"1"}
}

func wrap(values []any, in func(any) any) []any {
	wrapped := make([]any, len(values))
	for i, value := range values {
		wrapped[i] = in(value)
	}
	return wrapped
}

// nowhere returns the configuration of clients that reach nothing.
func nowhere() aws.Config {
	return aws.Config{
		Region: "eu-west-1", BaseEndpoint: aws.String("http://nowhere.invalid"),
		Credentials: credentials.NewStaticCredentialsProvider("AKIANOBODY", "secret", ""),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
		HTTPClient: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			return nil, errors.New("no network")
		})},
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
