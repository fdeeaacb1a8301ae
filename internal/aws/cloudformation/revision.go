package cloudformation

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/cloudformation/lookup"
	"github.com/coracle-eks/coracle/internal/cloudformation/plan"
	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/cloudformation/schema"
	"github.com/coracle-eks/coracle/internal/cloudformation/template"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// wanted is the desired state of a stack, according to a request.
type wanted struct {
	body, url    *string
	usePrevious  *bool
	parameters   []types.Parameter
	capabilities []types.Capability
	tags         []types.Tag // nil: those that the stack has
	topics       []string
	types        []string
	roleARN      string
	triggers     *types.RollbackConfiguration
}

// prepared is a revision that has been checked, and what an update to it would do.
type prepared struct {
	id   string
	body string
	row  record.StackRevision
	// previous is the revision that the stack has.
	previous record.StackRevision
	bound    *template.Bound
	current  map[string]plan.Resource
	changes  []plan.Change
}

// prepare checks what a request wants of a stack, which has its name and ID, but perhaps no records yet.
func (s *Service) prepare(ctx context.Context, v view, w wanted) (*prepared, error) {
	previous, err := s.revision(ctx, v, v.current())
	if err != nil {
		return nil, err
	}
	p := &prepared{id: newID(), previous: previous}
	if p.body, err = s.templateBody(ctx, v, w.body, w.url, w.usePrevious); err != nil {
		return nil, err
	}
	if err := refuseUnserved(w); err != nil {
		return nil, err
	}
	parsed, err := parse(ctx, p.body)
	if err != nil {
		return nil, err
	}
	if err := checkCapabilities(parsed, parsed, w.capabilities); err != nil {
		return nil, err
	}
	p.row = record.StackRevision{Account: v.Account, Description: parsed.Description, Transforms: parsed.Transforms,
		CreatedAt: s.timestamp(), Tags: previous.Tags, Capabilities: textsOf(w.capabilities),
		AllowedTypes: w.types}
	if w.tags != nil {
		if p.row.Tags, err = readTags(w.tags); err != nil {
			return nil, err
		}
		if err := s.authorizeUntagging(ctx, v, previous.Tags, p.row.Tags); err != nil {
			return nil, err
		}
	}
	in, err := s.inputs(ctx, v, w, previous)
	if err != nil {
		return nil, err
	}
	if p.bound, err = parsed.Bind(ctx, in); err != nil {
		return nil, invalidTemplate(err)
	}
	if err := checkCapabilities(parsed, p.bound, w.capabilities); err != nil {
		return nil, err
	}
	if err := checkResourceTypes(p.bound, w.types); err != nil {
		return nil, err
	}
	if p.row.Parameters, err = boundParameters(p.bound); err != nil {
		return nil, err
	}
	p.row.Types = p.bound.ResourceTypes()
	if p.current, err = s.currentResources(ctx, v); err != nil {
		return nil, err
	}
	if err := s.checkResources(ctx, p.bound); err != nil {
		return nil, err
	}
	p.changes, err = plan.Compute(ctx, p.bound, p.current, s.tagsOf(v, p.row.Tags))
	return p, invalidTemplate(err)
}

// authorizeUntagging decides whether the caller may remove the tags that a stack has and is to have no more. Policies
// judge stacks by their tags.
func (s *Service) authorizeUntagging(ctx context.Context, v view, has, wanted map[string]string) error {
	var removed []string
	for _, key := range slices.Sorted(maps.Keys(has)) {
		if _, stays := wanted[key]; !stays {
			removed = append(removed, key)
		}
	}
	if len(removed) == 0 {
		return nil
	}
	targets, err := s.onStack(ctx, "cloudformation:UntagResource", aws.String(v.ARN()), func(c conditions) {
		c["aws:TagKeys"] = removed
	})
	if err != nil {
		return err
	}
	return wire.Authorize(ctx, targets...)
}

// refuseUnserved refuses what needs services that are not there.
func refuseUnserved(w wanted) error {
	switch {
	case len(w.topics) > 0:
		return validation("NotificationARNs are not supported by coracle: it has no Amazon SNS")
	case w.triggers != nil && len(w.triggers.RollbackTriggers) > 0:
		return validation("RollbackConfiguration with RollbackTriggers is not supported by coracle: it has no CloudWatch " +
			"alarms")
	case w.triggers != nil && aws.ToInt32(w.triggers.MonitoringTimeInMinutes) > 0:
		return validation("RollbackConfiguration with MonitoringTimeInMinutes is not supported by coracle: it has no " +
			"CloudWatch alarms")
	}
	return nil
}

// templateBody returns the template of a request.
func (s *Service) templateBody(ctx context.Context, v view, body, url *string, usePrevious *bool) (string, error) {
	if aws.ToString(url) != "" {
		return "", validation("TemplateURL is not supported by coracle, which has no Amazon S3: pass the template in " +
			"TemplateBody, where up to 1 MB is accepted")
	}
	given := aws.ToString(body)
	switch {
	case aws.ToBool(usePrevious) && given != "":
		return "", validation("You cannot specify both usePreviousTemplate and Template Body/Template URL.")
	case aws.ToBool(usePrevious):
		if v.current() == "" {
			return "", validation("The stack has no previous template")
		}
		return s.storedTemplate(ctx, v, v.current())
	case given == "":
		return "", validation("Either Template URL or Template Body must be specified.")
	case len(given) > maxBody:
		return "", validation("1 validation error detected: Value at 'templateBody' failed to satisfy constraint: Member " +
			"must have length less than or equal to 1048576")
	}
	return given, nil
}

// storedTemplate returns the template of a revision.
func (s *Service) storedTemplate(ctx context.Context, v view, id string) (string, error) {
	row, err := s.templates.Get(ctx, record.StackRevisionKey(v.Account, v.Region, v.ID, id))
	if err != nil {
		return "", err
	}
	return revision.Decompress(row.Value.Body)
}

// parseFactor is how many bytes of memory a byte of a template may take until the request is answered.
const parseFactor = 200

// parse parses a template, for whose memory the caller's account must have room.
func parse(ctx context.Context, body string) (*template.Template, error) {
	if err := wire.HoldAnswer(ctx, int64(parseFactor*len(body))); err != nil {
		return nil, err
	}
	parsed, err := template.Parse(body)
	return parsed, invalidTemplate(err)
}

// memoryReserver returns what takes memory from the caller's account for what functions make of a template.
func memoryReserver(ctx context.Context) func(bytes int64) error {
	return func(bytes int64) error { return wire.HoldAnswer(ctx, bytes) }
}

// invalidTemplate returns faults of a template as AWS's error.
func invalidTemplate(err error) error {
	var fault *template.Error
	if errors.As(err, &fault) {
		return validation("%s", fault.Message)
	}
	return err
}

func textsOf[T ~string](list []T) []string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = string(item)
	}
	return texts
}

// checkCapabilities refuses a template that needs capabilities which the caller has not acknowledged. What needs them
// is the template, and once it is bound also the resources that loops make: their types are not known before.
func checkCapabilities(t *template.Template, of interface{ Capabilities() ([]string, string) },
	given []types.Capability) error {
	needs, _ := of.Capabilities()
	if missing := t.MissingCapabilities(needs, textsOf(given)); len(missing) > 0 {
		return &types.InsufficientCapabilitiesException{
			Message: aws.String("Requires capabilities : [" + strings.Join(missing, ", ") + "]")}
	}
	return nil
}

// checkResourceTypes refuses resources of other types than those that the caller names.
func checkResourceTypes(b *template.Bound, allowed []string) error {
	if len(allowed) == 0 {
		return nil
	}
	for _, name := range b.ResourceTypes() {
		if !slices.ContainsFunc(allowed, func(pattern string) bool {
			prefix, wild := strings.CutSuffix(pattern, "*")
			return name == pattern || wild && strings.HasPrefix(name, prefix)
		}) {
			return validation("Resource type %s is not allowed by parameter ResourceTypes %v", name, allowed)
		}
	}
	return nil
}

// readTags returns the tags of a request. Of a key that stands twice, the last one counts: eksctl sends such.
func readTags(tags []types.Tag) (map[string]string, error) {
	all := map[string]string{}
	for i, t := range tags {
		key, value := aws.ToString(t.Key), aws.ToString(t.Value)
		switch {
		case key == "" || utf8.RuneCountInString(key) > 128:
			return nil, validation("1 validation error detected: Value '%s' at 'tags.%d.member.key' failed to satisfy "+
				"constraint: Member must have a length of 1 to 128", key, i+1)
		case utf8.RuneCountInString(value) > 256:
			return nil, validation("1 validation error detected: Value '%s' at 'tags.%d.member.value' failed to satisfy "+
				"constraint: Member must have length less than or equal to 256", value, i+1)
		case wire.IsReservedTag(key):
			return nil, validation("Tag keys beginning with aws: are reserved for system use: %s", key)
		}
		all[key] = value
	}
	if len(all) > maxTags {
		return nil, validation("1 validation error detected: Value at 'tags' failed to satisfy constraint: Member must "+
			"have length less than or equal to %d", maxTags)
	}
	return all, nil
}

// inputs returns what a template is bound with.
func (s *Service) inputs(ctx context.Context, v view, w wanted, previous record.StackRevision) (
	template.Inputs, error) {
	in := template.Inputs{Parameters: map[string]template.ParameterInput{}, Pseudo: revision.Pseudo(v.Stack),
		Import: func(ctx context.Context, name string) (string, error) {
			row, err := s.exports.Get(ctx, record.StackExportKey(v.Account, v.Region, name))
			if errors.Is(err, store.ErrNotFound) {
				return "", template.ErrNotFound
			}
			return row.Value.Value, err
		}}
	before := map[string]string{}
	for _, p := range previous.Parameters {
		before[p.Key] = p.Value
	}
	size := 0
	if len(w.parameters) > maxParameters {
		return in, validation("A stack may have %d parameters, not %d", maxParameters, len(w.parameters))
	}
	for _, p := range w.parameters {
		key := aws.ToString(p.ParameterKey)
		if _, twice := in.Parameters[key]; twice {
			return in, validation("Duplicate parameter key: %s", key)
		}
		input := template.ParameterInput{Value: aws.ToString(p.ParameterValue),
			UsePrevious: aws.ToBool(p.UsePreviousValue)}
		if input.UsePrevious {
			if p.ParameterValue != nil {
				return in, validation("Invalid input for parameter key %s. Cannot specify usePreviousValue as true and "+
					"non empty value for a parameter", key)
			}
			if value, ok := before[key]; ok {
				input.Previous = &value
			} else {
				return in, validation("Invalid input for parameter key %s. Cannot specify usePreviousValue as true for a "+
					"parameter key not in the previous template", key)
			}
		} else if p.ParameterValue == nil {
			return in, validation("Invalid input for parameter key %s. Either a value or usePreviousValue is required", key)
		}
		size += len(key) + len(input.Value)
		in.Parameters[key] = input
	}
	if size > maxParameterSum {
		return in, validation("The parameters have %d bytes together; coracle accepts %d", size, maxParameterSum)
	}
	caller := s.options.Identity.Forward(wire.CallerFrom(ctx))
	lookup.Fill(&in, s.options.Config(v.Region, caller, w.roleARN, v.ARN()))
	in.Hold = memoryReserver(ctx)
	return in, nil
}

// boundParameters returns what is recorded of the parameters.
func boundParameters(b *template.Bound) ([]record.StackParameter, error) {
	var list []record.StackParameter
	size := 0
	for _, p := range b.Parameters() {
		stored := record.StackParameter{Key: p.Key, Value: p.Value, Text: p.Text, NoEcho: p.NoEcho}
		if p.ResolvedValue != "" {
			stored.Resolved = aws.String(p.ResolvedValue)
		}
		list = append(list, stored)
		size += len(p.Key) + len(p.Value) + len(p.ResolvedValue) + len(aws.ToString(p.Text))
	}
	if size > maxParameterSum {
		return nil, validation("The parameters have %d bytes together, with the SSM parameters that they name; coracle "+
			"accepts %d", size, maxParameterSum)
	}
	return list, nil
}

// checkResources refuses resources that could not be made.
func (s *Service) checkResources(ctx context.Context, b *template.Bound) error {
	var unknown []string
	for _, id := range b.LogicalIDs() {
		kind := b.Resource(id).Type
		if _, served := s.options.Types.Refused(kind); !served && !slices.Contains(unknown, kind) {
			unknown = append(unknown, kind)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return validation("Template format error: Unrecognized resource types: [%s]", strings.Join(unknown, ", "))
	}
	for _, id := range b.LogicalIDs() {
		r := b.Resource(id)
		properties, err := b.Properties(ctx, id, nil)
		if err != nil {
			return invalidTemplate(err)
		}
		refused, _ := s.options.Types.Refused(r.Type)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if slices.Contains(refused, name) {
				return validation("Properties validation failed for resource %s with message: property %s of %s is not "+
					"supported by coracle", id, name, r.Type)
			}
		}
		kind, ok := schema.Of(r.Type)
		if !ok {
			continue
		}
		if faults := kind.Validate(properties); len(faults) > 0 {
			return validation("Properties validation failed for resource %s with message:\n%v", id, faults[0])
		}
	}
	return nil
}

// tagsOf returns the tags that resources get from their stack; nil for types without.
func (s *Service) tagsOf(v view, tags map[string]string) func(resourceType, logicalID string) map[string]string {
	return func(resourceType, logicalID string) map[string]string {
		if !s.options.Types.IsTagged(resourceType) {
			return nil
		}
		return revision.ResourceTags(v.Stack, tags, logicalID)
	}
}

// How many bytes of memory a byte of the properties of a recorded resource, or of its Metadata, takes at most once it
// is decoded.
const (
	decodedProperties = 8
	decodedMetadata   = 50
)

// currentResources returns the resources that a stack has.
func (s *Service) currentResources(ctx context.Context, v view) (map[string]plan.Resource, error) {
	rows, err := s.resources.List(ctx, store.Prefix(v.Account, v.Region, v.ID))
	if err != nil {
		return nil, err
	}
	size := 0
	for _, row := range rows {
		if live := row.Value.Live; live != nil {
			size += decodedProperties*(len(live.Properties)+len(live.Attributes)) + decodedMetadata*len(live.Metadata)
		}
	}
	if err := wire.HoldAnswer(ctx, int64(size)); err != nil {
		return nil, err
	}
	current := map[string]plan.Resource{}
	for _, row := range rows {
		if row.Value.Live != nil {
			if current[row.Value.LogicalID], err = revision.Resource(*row.Value.Live); err != nil {
				return nil, err
			}
		}
	}
	return current, nil
}

// saveRevision records a revision. Unless an operation or a change set then names it, the controller deletes it.
func (s *Service) saveRevision(ctx context.Context, v view, p *prepared) error {
	key := record.StackRevisionKey(v.Account, v.Region, v.ID, p.id)
	body := record.StackTemplate{Account: v.Account, Body: revision.Compress(p.body)}
	if _, err := s.templates.Create(ctx, key, body); err != nil {
		return err
	}
	_, err := s.revisions.Create(ctx, key, p.row)
	return err
}

// hasChanges reports whether an update would do anything.
func (s *Service) hasChanges(ctx context.Context, v view, p *prepared) (bool, error) {
	previous, err := s.revision(ctx, v, v.current())
	if err != nil {
		return false, err
	}
	if len(p.changes) > 0 || !maps.Equal(previous.Tags, p.row.Tags) {
		return true, nil
	}
	outputs, err := p.bound.Outputs(ctx, unchanged(p.current))
	if err != nil {
		return false, invalidTemplate(err)
	}
	return !slices.Equal(storedOutputs(outputs), v.state.Value.Outputs), nil
}

func storedOutputs(outputs []template.Output) []record.StackOutput {
	var list []record.StackOutput
	for _, o := range outputs {
		list = append(list, record.StackOutput(o))
	}
	return list
}

// unchanged is the state of resources that stay as they are.
type unchanged map[string]plan.Resource

// Ref is part of template.State.
func (u unchanged) Ref(id string) (string, bool) {
	r, ok := u[id]
	if r.Ref != "" {
		return r.Ref, ok
	}
	return r.PhysicalID, ok
}

// Attribute is part of template.State.
func (u unchanged) Attribute(id, name string) (any, bool, error) {
	value, ok := u[id].Attributes[name]
	return value, ok, nil
}
