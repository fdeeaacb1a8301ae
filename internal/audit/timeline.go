package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Timeline turns the events of the audit log into steps. It remembers the versions of the objects that it
// is about, and so must see all events about them, in order of time; a few that come late do no harm.
type Timeline struct {
	Cluster string
	Targets []Target
	// Status shows changes of status also when a controller made them.
	Status bool

	versions       map[string][]version         // by object, by revision
	writers        map[string]map[string]Writer // the last step by object and field manager
	writes         map[string][]write           // by object, by revision
	shownRevisions map[string]uint64            // by object, the newest revision that a step told so far has left
}

// write is a step that left a revision.
type write struct {
	Writer
	revision uint64
}

// remembered is the number of versions and writes of an object that are kept: enough for requests that overlap.
const remembered = 32

// entry is an event with its content decoded.
type entry struct {
	event    *auditv1.Event
	object   Object
	request  any
	response map[string]any // nil unless the answer is an object
}

// Add returns the steps of further events. It records what they leave behind before it returns the first of them, so
// that the order inside of one call hardly matters.
func (s *Timeline) Add(events []*auditv1.Event) []*Step {
	if s.versions == nil {
		s.versions, s.writers = map[string][]version{}, map[string]map[string]Writer{}
		s.writes, s.shownRevisions = map[string][]write{}, map[string]uint64{}
	}
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b *auditv1.Event) int { return received(a).Compare(received(b)) })
	var entries []entry
	for _, e := range events {
		entries = append(entries, s.entries(e)...)
	}
	for _, e := range entries {
		s.recordEntry(e)
	}
	var steps []*Step
	ended := map[types.UID]bool{}
	for _, e := range entries {
		ended[e.event.AuditID] = ended[e.event.AuditID] || e.event.Stage != auditv1.StageResponseStarted
	}
	for _, e := range entries {
		if e.event.Stage == auditv1.StageResponseStarted && ended[e.event.AuditID] {
			continue // its end is here as well, and says more
		}
		steps = append(steps, s.buildStep(e))
	}
	for key, v := range s.versions {
		s.versions[key] = v[max(0, len(v)-remembered):]
	}
	return steps
}

// entries returns an event once for each target object that it is about, which may be none.
func (s *Timeline) entries(e *auditv1.Event) []entry {
	if e.ObjectRef == nil || e.Stage == auditv1.StageRequestReceived {
		return nil
	}
	en := entry{event: e, request: content(e.RequestObject), response: decodeObject(e.ResponseObject)}
	r := e.ObjectRef
	en.object = Object{Group: r.APIGroup, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace,
		Name: r.Name, UID: string(r.UID)}
	if r.Resource == "secrets" && r.APIGroup == "" {
		// EKS never logs their content. Who runs another audit policy would not want to see it either.
		en.request, en.response = nil, nil
	}
	if k, ok := kindForResource(r.APIGroup, r.Resource); ok {
		en.object.Kind = k.Kind
	} else if r.Subresource == "" && !strings.HasSuffix(nestedString(en.response, "kind"), "List") {
		en.object.Kind = nestedString(en.response, "kind")
	}
	if e.Verb == "deletecollection" {
		return s.collection(en)
	}
	if en.object.Name == "" {
		// Creations under a generated name.
		en.object.Name = nestedString(en.response, "metadata", "name")
	}
	if uid := nestedString(en.response, "metadata", "uid"); uid != "" && r.Subresource != "token" {
		en.object.UID = uid
		en.object.ResourceVersion = nestedString(en.response, "metadata", "resourceVersion")
	}
	if r.Resource == "namespaces" && e.Verb == "delete" && r.Subresource == "" && s.hasTargetIn(r.Name) {
		return []entry{en}
	}
	for _, t := range s.Targets {
		if t.matches(en.object) {
			return []entry{en}
		}
	}
	return nil
}

// hasTargetIn reports whether a named target lives in the namespace: it ends with it.
func (s *Timeline) hasTargetIn(namespace string) bool {
	return slices.ContainsFunc(s.Targets, func(t Target) bool {
		return t.Name != "" && !t.Cluster &&
			t.Namespace == namespace
	})
}

// collection returns the deletion of many objects, for those of them that are targets.
func (s *Timeline) collection(e entry) []entry {
	var all []entry
	items := nestedList(content(e.event.ResponseObject), "items")
	for _, item := range items {
		o := e.object
		o.Name, o.UID = nestedString(item, "metadata", "name"), nestedString(item, "metadata", "uid")
		if o.Namespace == "" {
			o.Namespace = nestedString(item, "metadata", "namespace")
		}
		if slices.ContainsFunc(s.Targets, func(t Target) bool { return t.matches(o) }) {
			one := e
			one.object = o
			all = append(all, one)
		}
	}
	if items != nil {
		return all
	}
	// The log doesn't say which: those that were there and that the selector chooses.
	selector, err := labels.Parse(requestQuery(e.event).Get("labelSelector"))
	if err != nil {
		selector = labels.Everything()
	}
	for _, t := range s.Targets {
		o := e.object
		o.Name = t.Name
		if !t.matches(o) {
			continue
		}
		if last := s.lastReported(o.objectKey()); last.object != nil {
			set := labels.Set{}
			for k := range toStringMap(nestedField(last.object, "metadata", "labels")) {
				set[k] = nestedString(last.object, "metadata", "labels", k)
			}
			if !selector.Matches(set) {
				continue
			}
			o.UID = nestedString(last.object, "metadata", "uid")
		}
		one := e
		one.object = o
		all = append(all, one)
	}
	return all
}

func toStringMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// lastReported returns the newest version of those that have been told: what a request that wrote nothing met.
func (s *Timeline) lastReported(key string) version {
	return s.versionBefore(key, s.shownRevisions[key]+1, "")
}

// versionBefore returns the newest version known that is older than a revision, of the same object.
func (s *Timeline) versionBefore(key string, rev uint64, uid string) version {
	all := s.versions[key]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].revision < rev && (uid == "" || nestedString(all[i].object, "metadata", "uid") == uid) {
			return all[i]
		}
	}
	return version{}
}

// versionAt returns the version of a revision.
func (s *Timeline) versionAt(key string, rev uint64) version {
	for _, v := range s.versions[key] {
		if v.revision == rev {
			return v
		}
	}
	return version{}
}

// insertVersion puts a version among the others; what is known about a revision already stays.
func (s *Timeline) insertVersion(key string, v version) {
	i, found := slices.BinarySearchFunc(s.versions[key], v.revision,
		func(v version, rev uint64) int { return cmp.Compare(v.revision, rev) })
	if !found {
		s.versions[key] = slices.Insert(s.versions[key], i, v)
	}
}

// recordEntry remembers what an event left behind.
func (s *Timeline) recordEntry(e entry) {
	if !e.succeeded() || isDryRun(e) {
		return
	}
	key := e.object.objectKey()
	switch sub := e.object.Subresource; {
	case sub == "scale" && e.response != nil:
		// The answer is a Scale: the object is as before, but for its size.
		v := s.versionBefore(key, revision(e.response), e.object.UID)
		if v.object == nil {
			return
		}
		manager := requestQuery(e.event).Get("fieldManager")
		if manager == "" {
			manager = defaultManager(e.event.UserAgent)
		}
		s.insertVersion(key, v.withReplicas(nestedField(e.response, "spec", "replicas"), revision(e.response), manager))
	case sub == "binding":
		all := s.versions[key]
		if len(all) == 0 {
			return
		}
		v := &all[len(all)-1]
		v.object = maps.Clone(v.object)
		spec := maps.Clone(toStringMap(v.object["spec"]))
		if spec == nil {
			spec = map[string]any{}
		}
		spec["nodeName"] = nestedField(e.request, "target", "name")
		v.object["spec"] = spec
	case e.response != nil && revision(e.response) > 0 && e.object.UID != "" && nestedString(e.response, "metadata",
		"name") == e.object.Name && sub != "token":
		s.insertVersion(key, newVersion(e.response))
	}
}

func (e entry) succeeded() bool {
	return e.event.ResponseStatus != nil && e.event.ResponseStatus.Code >= 200 && e.event.ResponseStatus.Code < 300
}

func isDryRun(e entry) bool {
	return len(requestQuery(e.event)["dryRun"]) > 0 || e.event.Verb == "delete" &&
		len(nestedList(e.request, "dryRun")) > 0
}

// reads are the verbs that change nothing.
var reads = []string{"get", "list", "watch"}

// buildStep makes the step of an event.
func (s *Timeline) buildStep(e entry) *Step {
	ev, q := e.event, requestQuery(e.event)
	step := &Step{
		Time: received(ev), Completed: ev.StageTimestamp.UTC(), AuditID: string(ev.AuditID), Level: string(ev.Level),
		Cluster: s.Cluster,
		Object:  e.object, Verb: ev.Verb, Who: resolveUser(ev.User), Client: Client{condense(ev.UserAgent),
			ev.UserAgent,
			ev.SourceIPs},
		DryRun: isDryRun(e), URI: ev.RequestURI, Open: ev.Stage == auditv1.StageResponseStarted,
		Webhooks:      webhooks(ev.Annotations),
		Authorization: ev.Annotations["authorization.k8s.io/reason"],
	}
	if ev.ImpersonatedUser != nil {
		as := resolveUser(*ev.ImpersonatedUser)
		step.Who.As = &as
	}
	if ev.ResponseStatus != nil {
		step.Code = ev.ResponseStatus.Code
	}
	if writes := !slices.Contains(reads, ev.Verb) && !strings.HasPrefix(ev.Verb, "delete") &&
		connects[e.object.Subresource] == ""; writes {
		if step.FieldManager = q.Get("fieldManager"); step.FieldManager == "" {
			step.FieldManager = defaultManager(ev.UserAgent)
		}
	}
	step.Force = q.Get("force") == "true"
	key := e.object.objectKey()
	base := s.lastReported(key)
	if rev := revision(e.response); rev > 0 && !step.DryRun {
		base = s.versionBefore(key, rev, e.object.UID)
	}
	step.Action = s.describeAction(e, step)
	if connects[e.object.Subresource] != "" {
		s.connection(step, e)
	}
	switch {
	case step.Refused():
		step.Refusal = s.refusal(ev, e.request, key, base)
	case ev.Verb == "deletecollection" || ev.Verb == "delete":
		s.deletion(step, e, base)
	case e.object.Subresource == "scale" || e.object.Subresource == "binding" || e.object.Subresource == "eviction":
		s.subresource(step, e, base)
	case connects[e.object.Subresource] != "":
	case ev.Verb == "create" && e.object.Subresource == "":
		if step.DryRun && e.response == nil {
			break
		}
		step.Summary = summarize(e)
		step.Ownership = nil
	case !slices.Contains(reads, ev.Verb):
		s.describeChange(step, e, base)
	}
	s.annotate(step, e)
	step.quiet = step.quietly()
	s.remember(step, e)
	return step
}

// remember records the writer, for later conflicts.
func (s *Timeline) remember(step *Step, e entry) {
	if rev := revision(e.response); e.succeeded() && !step.DryRun {
		s.shownRevisions[e.object.objectKey()] = max(s.shownRevisions[e.object.objectKey()], rev)
	}
	if !e.succeeded() || step.DryRun || step.FieldManager == "" {
		return
	}
	w := Writer{Who: step.Who.shortName(), Client: step.Client.Name, Action: step.Action,
		Time: step.Time.Format(time.RFC3339)}
	key := e.object.objectKey()
	if s.writers[key] == nil {
		s.writers[key] = map[string]Writer{}
	}
	s.writers[key][managerName(step.FieldManager, e.object.Subresource)] = w
	if rev := revision(e.response); rev > 0 {
		s.writes[key] = append(s.writes[key], write{w, rev})
		s.writes[key] = s.writes[key][max(0, len(s.writes[key])-remembered):]
	}
}

// connects are the subresources that open a connection to a pod or node.
var connects = map[string]string{"exec": "exec", "attach": "attach", "portforward": "port-forward"}

// describeAction names the request as people do.
func (s *Timeline) describeAction(e entry, step *Step) string {
	sub := e.object.Subresource
	if name := connects[sub]; name != "" {
		return name
	}
	switch verb := e.event.Verb; {
	case verb == "create" && sub == "eviction":
		return "evict"
	case verb == "create" && sub == "binding":
		return "bind"
	case verb == "create" && sub == "token":
		return "token"
	case slices.Contains(reads, verb):
		return verb
	case verb == "deletecollection":
		return "delete"
	case sub == "scale":
		return "scale"
	case sub == "ephemeralcontainers":
		return "debug"
	case sub == "approval":
		return "approve"
	case sub == "status", sub == "resize", sub == "finalize":
		return sub
	case verb == "patch" && applies(e, step):
		return "apply"
	default:
		return verb
	}
}

// applies reports whether a patch is a server-side apply. The log doesn't have the content type that
// says so; but an apply is a whole object under a field manager's name.
func applies(e entry, step *Step) bool {
	for _, m := range nestedList(e.response, "metadata", "managedFields") {
		if nestedString(m, "manager") == step.FieldManager && nestedString(m, "subresource") == e.object.Subresource &&
			nestedString(m, "operation") == "Apply" {
			return requestQuery(e.event).Has("fieldManager") && nestedString(e.request, "kind") != ""
		}
	}
	return e.response == nil && requestQuery(e.event).Has("fieldManager") && nestedString(e.request, "kind") != "" &&
		nestedString(e.request, "apiVersion") != ""
}

// describeChange records what an update, patch or apply changed.
func (s *Timeline) describeChange(step *Step, e entry, base version) {
	if e.response == nil {
		if step.Verb == "patch" && e.request != nil {
			step.Changes, step.Requested = requested(e.request), true
		}
		return
	}
	status := s.Status || e.object.Subresource == "status" && !step.Who.machinery()
	after := newVersion(e.response)
	if step.Action == "apply" && step.Code == 201 {
		step.Summary = summarize(e)
		return
	}
	if !step.DryRun && base.object == nil {
		if step.Verb == "patch" {
			step.Changes, step.Requested = requested(e.request), true
			if !status {
				step.Changes = slices.DeleteFunc(step.Changes,
					func(c Change) bool { return strings.HasPrefix(c.Path, ".status") })
			}
			for i := range step.Changes {
				step.Changes[i].Owners = after.managersOf(step.Changes[i].path)
			}
		} else if e.object.Subresource == "" {
			step.Notes = append(step.Notes, "the version before is not in the log: what changed is unknown")
		}
		return
	}
	if same := s.versionAt(e.object.objectKey(), after.revision); !step.DryRun && s.hasWritten(e.object.objectKey(),
		after.revision) && same.object != nil {
		step.Notes = append(step.Notes, "nothing changed")
		return
	}
	step.Changes = difference(base, after, status)
	attribute(step.Changes, base, after, step.FieldManager, e.object.Subresource)
	step.Ownership = ownership(base, after, step.Changes)
	if e.object.Subresource == "" && len(step.Changes) == 0 && len(step.Ownership) == 0 && !step.DryRun {
		step.Notes = append(step.Notes, "nothing but bookkeeping changed")
	}
	if nestedString(e.response, "metadata", "deletionTimestamp") != "" &&
		len(nestedList(base.object, "metadata", "finalizers")) > 0 &&
		len(nestedList(e.response, "metadata", "finalizers")) == 0 {
		step.Notes = append(step.Notes, "that was the last finalizer: the object is gone")
	}
}

// hasWritten reports whether a step that was already shown left the revision.
func (s *Timeline) hasWritten(key string, rev uint64) bool {
	return rev > 0 && slices.ContainsFunc(s.writes[key], func(w write) bool { return w.revision == rev })
}

// deletion records whether an object is gone, and why.
func (s *Timeline) deletion(step *Step, e entry, base version) {
	if step.Object.Resource == "namespaces" && !slices.ContainsFunc(s.Targets,
		func(t Target) bool { return t.matches(step.Object) }) {
		step.Notes = append(step.Notes, "the namespace goes, with everything in it")
		return
	}
	if e.event.Verb == "deletecollection" {
		n := len(nestedList(content(e.event.ResponseObject), "items"))
		note := "with all others of its type in the namespace"
		if n > 0 {
			note = fmt.Sprintf("one of %s that the request deleted", formatCount(n, "object"))
		}
		q := requestQuery(e.event)
		for _, name := range []string{"labelSelector", "fieldSelector"} {
			if v := q.Get(name); v != "" {
				note += fmt.Sprintf(" (%s %s)", strings.ToLower(strings.TrimSuffix(name, "Selector"))+"s", v)
			}
		}
		step.Notes = append(step.Notes, note)
		return
	}
	if strings.HasSuffix(step.Client.UserAgent, "generic-garbage-collector") {
		for _, o := range nestedList(base.object, "metadata", "ownerReferences") {
			step.Notes = append(step.Notes, "garbage: its owner "+strings.ToLower(nestedString(o, "kind"))+"/"+
				nestedString(o, "name")+" is gone")
		}
	}
	if f := nestedList(e.response, "metadata", "finalizers"); len(f) > 0 {
		var names []string
		for _, name := range f {
			names = append(names, fmt.Sprint(name))
		}
		step.Notes = append(step.Notes, "stays until its finalizers are removed: "+strings.Join(names, ", "))
	} else if grace := nestedField(e.response, "metadata", "deletionGracePeriodSeconds"); grace != nil &&
		fmt.Sprint(grace) != "0" {
		step.Notes = append(step.Notes, fmt.Sprintf("ends within %v seconds", grace))
	}
	switch policy := nestedString(e.request, "propagationPolicy"); policy {
	case "Orphan":
		step.Notes = append(step.Notes, "what it owns is left alone (propagation Orphan)")
	case "Foreground":
		step.Notes = append(step.Notes, "what it owns goes first (propagation Foreground)")
	}
}

// subresource describes requests whose response is not the object.
func (s *Timeline) subresource(step *Step, e entry, base version) {
	switch e.object.Subresource {
	case "scale":
		to := nestedField(e.response, "spec", "replicas")
		if to == nil {
			to = nestedField(e.request, "spec", "replicas")
		}
		from := nestedField(base.object, "spec", "replicas")
		if to == nil || fmt.Sprint(from) == fmt.Sprint(to) {
			step.Notes = append(step.Notes, fmt.Sprintf("stays at %v replicas", to))
			return
		}
		step.Changes = []Change{{Path: ".spec.replicas", Op: "replace", From: from, To: to,
			unknown: base.object == nil}}
		step.Changes[0].Owners = []string{managerName(step.FieldManager, "scale")}
		p := base.findPath(".spec.replicas")
		for _, was := range base.managersOf(p) {
			if p != nil && was != step.Changes[0].Owners[0] {
				step.Changes[0].Lost = append(step.Changes[0].Lost, was)
			}
		}
	case "binding":
		step.Notes = append(step.Notes, "to node "+nestedString(e.request, "target", "name"))
	case "eviction":
		step.Notes = append(step.Notes, "allowed by its disruption budgets")
	}
}

// connection describes what a user did in a pod, or tried to do.
func (s *Timeline) connection(step *Step, e entry) {
	q := requestQuery(e.event)
	if command := q["command"]; len(command) > 0 {
		step.Notes = append(step.Notes, "command: "+strings.Join(command, " "))
	}
	if c := q.Get("container"); c != "" {
		step.Notes = append(step.Notes, "in container "+c)
	}
	if ports := q["ports"]; len(ports) > 0 {
		step.Notes = append(step.Notes, "ports "+strings.Join(ports, ", "))
	}
	if step.Open {
		step.Notes = append(step.Notes, "goes on")
	} else if d := step.Completed.Sub(step.Time); d >= time.Second {
		step.Notes = append(step.Notes, "ended after "+d.Round(time.Second).String())
	}
}

// annotate adds what the API server noted beside.
func (s *Timeline) annotate(step *Step, e entry) {
	a := e.event.Annotations
	if a["k8s.io/deprecated"] == "true" {
		note := "a deprecated API version"
		if release := a["k8s.io/removed-release"]; release != "" {
			note += ", gone in Kubernetes " + release
		}
		step.Notes = append(step.Notes, note)
	}
	for _, key := range []string{"pod-security.kubernetes.io/audit-violations",
		"validation.policy.admission.k8s.io/validation_failure"} {
		if a[key] != "" {
			step.Notes = append(step.Notes, a[key])
		}
	}
	if a["audit.k8s.io/truncated"] == "true" {
		step.Notes = append(step.Notes, "the event was too large for the log: its content is missing")
	}
	if d := step.Completed.Sub(step.Time); d >= 2*time.Second && connects[e.object.Subresource] == "" &&
		!slices.Contains(reads, e.event.Verb) {
		step.Notes = append(step.Notes, "took "+d.Round(100*time.Millisecond).String())
	}
}

// quietly reports whether the step is the daily business of a controller, and no news: a status
// written, or a write that came too late and is tried again.
func (s *Step) quietly() bool {
	if !s.Who.machinery() || s.DryRun || len(s.Webhooks) > 0 {
		return false
	}
	if s.Refusal != nil {
		return s.Refusal.Kind == "stale"
	}
	return s.Object.Subresource == "status" && len(s.Changes) == 0 && len(s.Ownership) == 0
}

func formatCount(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
