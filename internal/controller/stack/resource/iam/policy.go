package iam

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/coracle-eks/coracle/internal/controller/stack/resource"
)

// holder is an entity that a policy is given to.
type holder struct {
	entity
	name string
}

// holdersOf returns the entities that the properties Groups, Roles and Users name.
func holdersOf(properties map[string]any) []holder {
	var all []holder
	for _, k := range []struct {
		property string
		entity   entity
	}{{"Groups", group}, {"Roles", role}, {"Users", user}} {
		for _, name := range resource.Texts(properties[k.property]) {
			all = append(all, holder{k.entity, name})
		}
	}
	return all
}

// formerHolders returns the entities that an update takes a policy from.
func formerHolders(r *resource.Request) []holder {
	var former []holder
	for _, property := range []string{"Groups", "Roles", "Users"} {
		wanted := map[string]bool{}
		for _, name := range r.Texts(property) {
			wanted[name] = true
		}
		for _, h := range holdersOf(map[string]any{property: r.Previous[property]}) {
			if !wanted[h.name] {
				former = append(former, h)
			}
		}
	}
	return former
}

// inlinePolicies is the handler of AWS::IAM::Policy: one inline policy, of any number of entities. There is nothing in
// IAM that has the physical ID, which is the generated name.
type inlinePolicies struct{}

// Create is part of [resource.Handler].
func (inlinePolicies) Create(ctx context.Context, r *resource.Request) (resource.Result, error) {
	return inlinePolicies{}.ensure(ctx, r, r.Name)
}

// Update is part of [resource.Handler].
func (inlinePolicies) Update(ctx context.Context, r *resource.Request) (resource.Result, error) {
	out, err := inlinePolicies{}.ensure(ctx, r, r.PhysicalID)
	if err != nil {
		return out, err
	}
	former := formerHolders(r)
	if r.Changed("PolicyName") {
		former = holdersOf(r.Previous)
	}
	return out, deleteInline(ctx, newClient(r.Config), former, resource.Text(r.Previous["PolicyName"]))
}

func (inlinePolicies) ensure(ctx context.Context, r *resource.Request, id string) (resource.Result, error) {
	out := resource.Result{PhysicalID: id, Attributes: map[string]any{"Id": id}}
	holders := holdersOf(r.Properties)
	if len(holders) == 0 {
		out.PhysicalID = r.PhysicalID // nothing is made
		return out, resource.Errorf(resource.InvalidRequest, "At least one of [Groups,Roles,Users] must be non-empty.")
	}
	c, document := newClient(r.Config), resource.Text(r.Properties["PolicyDocument"])
	for _, h := range holders {
		if err := h.putInline(ctx, c, h.name, r.Text("PolicyName"), document); err != nil {
			return out, err
		}
	}
	return out, nil
}

func deleteInline(ctx context.Context, c *iam.Client, holders []holder, policy string) error {
	for _, h := range holders {
		if err := h.deleteInline(ctx, c, h.name, policy); err != nil && !resource.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// Delete is part of [resource.Handler]. What a Create has made whose answer was lost is known by its document.
func (inlinePolicies) Delete(ctx context.Context, r *resource.Request) (resource.Result, error) {
	c, holders := newClient(r.Config), holdersOf(r.Properties)
	if r.PhysicalID == "" {
		var err error
		if holders, err = havingInline(ctx, c, r, holders); err != nil {
			return resource.Result{}, err
		}
	}
	return resource.Result{}, deleteInline(ctx, c, holders, r.Text("PolicyName"))
}

// havingInline returns which entities have the policy of the resource.
func havingInline(
	ctx context.Context, c *iam.Client, r *resource.Request, holders []holder,
) (having []holder, err error) {
	for _, h := range holders {
		document, err := h.getInline(ctx, c, h.name, r.Text("PolicyName"))
		switch {
		case resource.IsNotFound(err):
		case err != nil:
			return nil, err
		case sameDocument(document, r.Properties["PolicyDocument"]):
			having = append(having, h)
		}
	}
	return having, nil
}

// Read is part of [resource.Handler].
func (inlinePolicies) Read(
	ctx context.Context, r *resource.Request,
) (properties, attributes map[string]any, err error) {
	c, policy := newClient(r.Config), r.Text("PolicyName")
	properties = map[string]any{}
	for _, property := range []string{"Groups", "Roles", "Users"} {
		var names []any
		for _, h := range holdersOf(map[string]any{property: r.Properties[property]}) {
			document, err := h.getInline(ctx, c, h.name, policy)
			if resource.IsNotFound(err) {
				continue
			} else if err != nil {
				return nil, nil, err
			}
			names = append(names, h.name)
			properties["PolicyDocument"] = decodeDocument(document)
		}
		if names != nil {
			properties[property] = names
		}
	}
	if len(properties) == 0 {
		return nil, nil, resource.ErrNotFound
	}
	properties["PolicyName"] = policy
	return properties, map[string]any{"Id": r.PhysicalID}, nil
}

// Updatable returns the properties that the handler changes in place.
func (inlinePolicies) Updatable() []string {
	return []string{"Groups", "PolicyDocument", "PolicyName", "Roles", "Users"}
}
