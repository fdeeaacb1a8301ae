package addon

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/coracle-eks/coracle/internal/catalog"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/recovery"
)

// step is the application of one object of an add-on: from its dry run to its server-side apply.
type step struct {
	object catalog.Object
	ref    record.AddonObject
	kept   []string       // paths of fields that PRESERVE left to other managers
	config map[string]any // the configuration to apply: the object without the fields that are left to others

	live   *unstructured.Unstructured // before; nil when it was not read, or did not exist
	result *unstructured.Unstructured // after the dry run
	// conflicts are the conflicting fields of other managers; refusal is the error of the API server about them.
	conflicts []metav1.StatusCause
	refusal   error
	problem   *problem // why it cannot be applied; nil when it can
	force     bool     // apply with force, although the mode is none: EKS owns the conflicting fields, too (see dryRun)
	later     bool     // the dry run has to wait for other objects of the add-on, such as its namespace
}

// objectRef names an object.
func objectRef(o *unstructured.Unstructured) record.AddonObject {
	return record.AddonObject{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(),
		Name: o.GetName()}
}

// sameName compares the names of objects, and not their versions.
func sameName(a, b record.AddonObject) bool {
	group := func(version string) string { g, _, _ := strings.Cut(version, "/"); return g }
	return a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name &&
		(a.APIVersion == b.APIVersion || strings.Contains(a.APIVersion, "/") && strings.Contains(b.APIVersion, "/") &&
			group(a.APIVersion) == group(b.APIVersion))
}

// dryRunAll dry-runs objects concurrently. The problem of an object is in its step; the error is a [*problem] when the
// API server does not answer. have are the objects that the add-on has now. With live, the live objects are read even
// where the dry run does not need them.
func (r *requester) dryRunAll(ctx context.Context, objects []catalog.Object, have []record.AddonObject, m mode,
	live bool) ([]*step, error) {
	var plain []*unstructured.Unstructured
	for _, o := range objects {
		plain = append(plain, o.Unstructured)
	}
	r.learnKinds(plain)
	steps := make([]*step, len(objects))
	group := recovery.Group(ctx).WithMaxGoroutines(atOnce)
	for i, o := range objects {
		s := &step{object: o, ref: objectRef(o.Unstructured)}
		if at := slices.IndexFunc(have, func(h record.AddonObject) bool { return sameName(h, s.ref) }); at >= 0 &&
			m != overwrite {
			s.kept = have[at].Kept
		}
		steps[i] = s
		group.Go(func(ctx context.Context) error {
			if err := r.prepareStep(ctx, s, m, live); err != nil {
				return s.recordProblem(err, plain)
			}
			return s.recordProblem(r.dryRun(ctx, s, m), plain)
		})
	}
	return steps, group.Wait()
}

// prepareStep sets the configuration of a step: the object without the fields that are left to other managers.
func (r *requester) prepareStep(ctx context.Context, s *step, m mode, live bool) error {
	var err error
	if s.config, err = deepCopyJSON(s.object.Object); err != nil {
		return err
	}
	if s.ref.Kind == "Namespace" && s.ref.APIVersion == "v1" {
		// A label that every namespace has. With it, EKS owns a field of the namespace, by which it recognizes later that
		// it manages the namespace.
		if err := unstructured.SetNestedField(s.config, s.ref.Name, "metadata", "labels",
			"kubernetes.io/metadata.name"); err != nil {
			return err
		}
	}
	yields := s.object.Yields
	if m == overwrite {
		yields = nil
	}
	if !live && len(yields)+len(s.kept) == 0 {
		return nil
	}
	if s.live, err = r.getObject(ctx, s.ref); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	s.kept, err = yieldFields(s.config, s.live, yields, s.kept)
	return err
}

// recordProblem records a problem of a step, and returns errors that concern more than the step.
func (s *step) recordProblem(err error, all []*unstructured.Unstructured) error {
	if err == nil {
		return nil
	}
	if s.later = createdByAddon(err, s.ref, all); s.later {
		return nil
	}
	var p *problem
	if !errors.As(problemOf(s.ref, err), &p) {
		return err
	}
	if p.issue.Code == ekstypes.AddonIssueCodeClusterUnreachable {
		return p
	}
	s.problem = p
	return nil
}

// createdByAddon reports whether an object was refused only because its namespace or CustomResourceDefinition, which is
// one of the objects, does not exist yet.
func createdByAddon(err error, o record.AddonObject, all []*unstructured.Unstructured) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	return slices.ContainsFunc(all, func(other *unstructured.Unstructured) bool {
		if other.GetKind() == "Namespace" {
			return other.GetName() == o.Namespace
		}
		group, _, kind, _, _ := definedKind(other)
		return kind != "" && kind == o.Kind && strings.HasPrefix(o.APIVersion, group+"/")
	})
}

// Action is the change that an object would undergo.
type Action string

// The actions.
const (
	Create Action = "create"
	Change Action = "change"
	Adopt  Action = "adopt" // no value changes, but EKS comes to own fields
	Leave  Action = "nothing"
	Delete Action = "delete"
)

// ObjectChange is the change that applying an add-on would make to one object.
type ObjectChange struct {
	Object record.AddonObject
	Action Action
	// Live is the object now and Result the object after the change, both with their managed fields; Wanted is the
	// rendered object. Each is nil when there is none: no object yet, a refusal, an object that the add-on no longer
	// has.
	Live, Result, Wanted *unstructured.Unstructured
	// Conflicts are the fields that others own and that the add-on wants otherwise. With OVERWRITE they are taken; with
	// NONE they are why nothing is changed at all.
	Conflicts []Conflict
	// Fields are those whose values would change, by path, of an object that is there.
	Fields []FieldChange
	// Kept are the paths of conflicting fields that PRESERVE leaves to others, by this change or an earlier one.
	Kept []string
	// Refused is the health issue that EKS would report for an object that cannot be applied; nil when it can.
	Refused *ekstypes.AddonIssue
}

// Conflict is a field that another manager owns, by its path in the API server's form:
// `.spec.template.spec.containers[name="aws-node"].image`.
type Conflict struct{ Manager, Path string }

// FieldChange is a value that would change; nil is for a field that is not there.
type FieldChange struct {
	Path     string
	From, To any
}

// Plan returns what CreateAddon or UpdateAddon with resolveConflicts would do to each object of an add-on, without
// doing it: it makes the dry run with which the controller begins, and reads the live objects. config is the
// configuration with which eks:addon-manager reaches the API server of the cluster of that name. objects are the
// objects of the add-on, in order, and have those that it has in the cluster: AddonState.Objects, or nil when there is
// no such add-on. The error is about the API server as a whole.
func Plan(
	ctx context.Context, config *rest.Config, cluster string, objects []catalog.Object, have []record.AddonObject,
	conflicts ekstypes.ResolveConflicts,
) ([]ObjectChange, error) {
	r, err := newRequester(config, cluster)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	steps, err := r.dryRunAll(ctx, objects, have, conflictMode(conflicts), true)
	if err != nil {
		return nil, err
	}
	var all []ObjectChange
	for _, s := range steps {
		change, err := s.describeChange()
		if err != nil {
			return nil, err
		}
		all = append(all, change)
	}
	for _, o := range have {
		if !slices.ContainsFunc(steps, func(s *step) bool { return sameName(o, s.ref) }) {
			live, err := r.getObject(ctx, o)
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, err
			}
			all = append(all, ObjectChange{Object: o, Action: Delete, Live: live})
		}
	}
	return all, nil
}

// describeChange returns the change that a step would make, from its dry run and the live object.
func (s *step) describeChange() (ObjectChange, error) {
	c := ObjectChange{Object: s.ref, Action: Leave, Kept: s.kept, Live: s.live, Result: s.result,
		Wanted: s.object.Unstructured}
	for _, cause := range s.conflicts {
		c.Conflicts = append(c.Conflicts, Conflict{managerOf(cause.Message), cause.Field})
	}
	if s.problem != nil {
		c.Refused = &s.problem.issue
	}
	if s.live == nil {
		c.Action = Create
		return c, nil
	}
	if s.result == nil {
		return c, nil
	}
	before, err := ownedFields(s.live)
	if err != nil {
		return c, err
	}
	after, err := ownedFields(s.result)
	if err != nil {
		return c, err
	}
	if !before.Equals(after) {
		c.Action = Adopt
	}
	compared := 0
	for p := range before.Union(after).Leaves().All() {
		from, had := lookupPath(s.live.Object, p, &compared)
		to, has := lookupPath(s.result.Object, p, &compared)
		if compared > maxCompared {
			return c, errCompared
		}
		if had != has || !reflect.DeepEqual(from, to) {
			c.Fields = append(c.Fields, FieldChange{p.String(), from, to})
			c.Action = Change
		}
	}
	c.Fields = outermost(c.Fields)
	return c, nil
}

// outermost leaves out the changes within a field that comes or goes as a whole.
func outermost(all []FieldChange) []FieldChange {
	var whole []string
	for _, f := range all {
		if f.From == nil || f.To == nil {
			whole = append(whole, f.Path)
		}
	}
	set := newPathSet(whole)
	return slices.DeleteFunc(slices.Clone(all), func(f FieldChange) bool { return set.containsAbove(f.Path) })
}
