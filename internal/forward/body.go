package forward

import (
	"cmp"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/json"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// operationOf returns the operation of a request whose input is JSON, which is one of a service of the API.
func operationOf(r *wire.Forwarded, prefixes ...string) (string, error) {
	target := r.Header.Get("X-Amz-Target")
	for _, prefix := range prefixes {
		if name, ok := strings.CutPrefix(target, prefix+"."); ok && r.Method == http.MethodPost &&
			len(r.Header.Values("X-Amz-Target")) == 1 {
			return name, nil
		}
	}
	return "", &wire.Error{Code: "UnknownOperationException", Status: http.StatusBadRequest,
		Message: fmt.Sprintf("The operation %q is none of the service's.", target)}
}

// readBody reads the members of a JSON body that a structure has.
func readBody(r *wire.Forwarded, into any) error {
	if len(r.Body) == 0 {
		return nil
	}
	if err := wire.CheckValues(r.Body); err != nil {
		return err
	}
	return readMembers(r.Body, into)
}

// readMembers reads the members of a JSON object that a structure has. A member that is there twice, or in other case
// beside it, is refused: the endpoint might read the other one.
func readMembers(object []byte, into any) error {
	strict, err := json.UnmarshalStrict(object, into, json.DisallowDuplicateFields)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	var members map[string]stdjson.RawMessage
	if err == nil {
		err = json.UnmarshalCaseSensitivePreserveInts(object, &members)
	}
	read := reflect.TypeOf(into).Elem()
	for i := range read.NumField() {
		known := cmp.Or(read.Field(i).Tag.Get("json"), read.Field(i).Name)
		for name := range members {
			if err == nil && name != known && strings.EqualFold(name, known) {
				err = fmt.Errorf("the member %q is not %q", name, known)
			}
		}
	}
	if err != nil {
		return &wire.Error{Code: "SerializationException", Status: http.StatusBadRequest,
			Message: "The request body could not be read: " + err.Error()}
	}
	return nil
}

// jsonCall returns the call of an operation whose input is JSON.
func jsonCall(protocol wire.Protocol, operation string, targets []wire.Target) *call {
	content := "application/x-amz-json-1.0"
	if protocol == wire.AWSJSON11 {
		content = "application/x-amz-json-1.1"
	}
	return &call{operation: operation, targets: targets, path: "/", header: map[string]string{"Content-Type": content}}
}

// targetsOn returns the targets of an action on resources of the caller's account; on everything without any. unread
// is as in [wire.Target].
func targetsOn(r *wire.Forwarded, action string, conditions map[string][]string, unread func(string) bool,
	resources ...string) (all []wire.Target) {
	if len(resources) == 0 {
		resources = []string{"*"}
	}
	conditions = maps.Clone(conditions)
	if conditions == nil {
		conditions = map[string][]string{}
	}
	conditions["aws:ResourceAccount"] = []string{wire.CallerFrom(r.Context()).Account}
	for _, resource := range resources {
		all = append(all, wire.Target{Action: action, Resource: resource, Conditions: conditions, Unread: unread})
	}
	return all
}

// isTagKey reports whether a condition key is about tags, which the endpoint alone knows, or a body has that is not
// read.
func isTagKey(key string) bool {
	key = strings.ToLower(key)
	return strings.HasPrefix(key, "aws:resourcetag/") || strings.HasPrefix(key, "aws:requesttag/") || key == "aws:tagkeys"
}

// unreadKeys returns what reports whether the value of a condition key is not known: one of a service's but known, in
// lower case, or one about tags.
func unreadKeys(service string, known ...string) func(string) bool {
	return func(key string) bool {
		key = strings.ToLower(key)
		return isTagKey(key) || strings.HasPrefix(key, service+":") && !slices.Contains(known, key)
	}
}

// badName returns the error for a name that the service does not have.
func badName(what, name string) error {
	return &wire.Error{Code: "ValidationException", Status: http.StatusBadRequest,
		Message: fmt.Sprintf("%q is not a valid %s.", name, what)}
}

// notOurs returns the error for an ARN that is none of the caller's account and the request's region. Endpoints read
// the name in it alone.
func notOurs(arn string) error {
	return refuse("requests for what others have, or other regions: %s", arn)
}

// arnOf returns the ARN of a resource of the caller's account and region.
func arnOf(r *wire.Forwarded, service, resource string) string {
	ctx := r.Context()
	return "arn:aws:" + service + ":" + wire.RegionFrom(ctx) + ":" + wire.CallerFrom(ctx).Account + ":" + resource
}
