package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// summarize returns a short summary of what was created.
func summarize(e entry) []string {
	obj := e.response
	if obj == nil {
		obj = toStringMap(e.request)
	}
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, o := range nestedList(obj, "metadata", "ownerReferences") {
		if nestedField(o, "controller") == true {
			say("for %s/%s", strings.ToLower(nestedString(o, "kind")), nestedString(o, "name"))
		}
	}
	pod := nestedField(obj, "spec", "template", "spec")
	if pod == nil {
		pod = nestedField(obj, "spec", "jobTemplate", "spec", "template", "spec")
	}
	if pod == nil && nestedString(obj, "kind") == "Pod" {
		pod = nestedField(obj, "spec")
	}
	if r := nestedField(obj, "spec", "replicas"); r != nil {
		say("%v replicas", r)
	}
	if v := nestedString(obj, "spec", "schedule"); v != "" {
		say("schedule %s", v)
	}
	for _, c := range append(nestedList(pod, "initContainers"), nestedList(pod, "containers")...) {
		say("container %s: %s", nestedString(c, "name"), nestedString(c, "image"))
	}
	if v := nestedString(pod, "serviceAccountName"); v != "" && v != "default" {
		say("service account %s", v)
	}
	switch nestedString(obj, "kind") {
	case "Service":
		var ports []string
		for _, p := range nestedList(obj, "spec", "ports") {
			ports = append(ports, fmt.Sprintf("%v -> %v", nestedField(p, "port"), nestedField(p, "targetPort")))
		}
		say("%s %s, ports %s", nestedString(obj, "spec", "type"), nestedString(obj, "spec", "clusterIP"),
			strings.Join(ports, ", "))
	case "RoleBinding", "ClusterRoleBinding":
		var subjects []string
		for _, s := range nestedList(obj, "subjects") {
			subjects = append(subjects, strings.ToLower(nestedString(s, "kind"))+" "+nestedString(s, "name"))
		}
		say("gives %s %s to %s", nestedString(obj, "roleRef", "kind"), nestedString(obj, "roleRef", "name"),
			strings.Join(subjects, ", "))
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		for _, w := range nestedList(obj, "webhooks") {
			say("webhook %s, on failure %s", nestedString(w, "name"), nestedString(w, "failurePolicy"))
		}
	case "ConfigMap":
		if data := toStringMap(obj["data"]); len(data) > 0 {
			say("data %s", strings.Join(slices.Sorted(maps.Keys(data)), ", "))
		}
	}
	return all
}
