package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// summarize says in a few words what was created.
func summarize(e entry) []string {
	obj := e.response
	if obj == nil {
		obj = asMap(e.request)
	}
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, o := range list(obj, "metadata", "ownerReferences") {
		if field(o, "controller") == true {
			say("for %s/%s", strings.ToLower(text(o, "kind")), text(o, "name"))
		}
	}
	pod := field(obj, "spec", "template", "spec")
	if pod == nil {
		pod = field(obj, "spec", "jobTemplate", "spec", "template", "spec")
	}
	if pod == nil && text(obj, "kind") == "Pod" {
		pod = field(obj, "spec")
	}
	if r := field(obj, "spec", "replicas"); r != nil {
		say("%v replicas", r)
	}
	if v := text(obj, "spec", "schedule"); v != "" {
		say("schedule %s", v)
	}
	for _, c := range append(list(pod, "initContainers"), list(pod, "containers")...) {
		say("container %s: %s", text(c, "name"), text(c, "image"))
	}
	if v := text(pod, "serviceAccountName"); v != "" && v != "default" {
		say("service account %s", v)
	}
	switch text(obj, "kind") {
	case "Service":
		var ports []string
		for _, p := range list(obj, "spec", "ports") {
			ports = append(ports, fmt.Sprintf("%v -> %v", field(p, "port"), field(p, "targetPort")))
		}
		say("%s %s, ports %s", text(obj, "spec", "type"), text(obj, "spec", "clusterIP"), strings.Join(ports, ", "))
	case "RoleBinding", "ClusterRoleBinding":
		var subjects []string
		for _, s := range list(obj, "subjects") {
			subjects = append(subjects, strings.ToLower(text(s, "kind"))+" "+text(s, "name"))
		}
		say("gives %s %s to %s", text(obj, "roleRef", "kind"), text(obj, "roleRef", "name"), strings.Join(subjects, ", "))
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		for _, w := range list(obj, "webhooks") {
			say("webhook %s, on failure %s", text(w, "name"), text(w, "failurePolicy"))
		}
	case "ConfigMap":
		if data := asMap(obj["data"]); len(data) > 0 {
			say("data %s", strings.Join(slices.Sorted(maps.Keys(data)), ", "))
		}
	}
	return all
}
