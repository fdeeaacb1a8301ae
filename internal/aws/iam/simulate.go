package iam

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/coracle-eks/coracle/internal/aws/iam/policy"
	"github.com/coracle-eks/coracle/internal/store"

	"github.com/coracle-eks/coracle/internal/aws/wire"
)

// simulation is the input of both simulators: a question, and the policies that answer it.
type simulation struct {
	who       policy.Principal
	policies  policy.Policies
	keys      policy.Keys
	actions   []string
	resources []string
}

// simulateHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) simulateHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.SimulatePrincipalPolicy, func(
			_ context.Context, action string, in *iam.SimulatePrincipalPolicyInput,
		) ([]wire.Target, error) {
			return []wire.Target{newTarget(action, *in.PolicySourceArn)}, nil
		}),
		wire.Handle(s.SimulateCustomPolicy, wire.OnAll),
		wire.Handle(s.GetContextKeysForCustomPolicy, wire.OnAll),
		wire.Handle(s.GetContextKeysForPrincipalPolicy, func(
			_ context.Context, action string, in *iam.GetContextKeysForPrincipalPolicyInput,
		) ([]wire.Target, error) {
			return []wire.Target{newTarget(action, *in.PolicySourceArn)}, nil
		}),
	}
}

// SimulatePrincipalPolicy reports what the policies of a user, group or role allow, together with those given.
func (s *Service) SimulatePrincipalPolicy(ctx context.Context, in *iam.SimulatePrincipalPolicyInput) (
	*iam.SimulatePrincipalPolicyOutput, error) {
	sim := simulation{actions: in.ActionNames, resources: in.ResourceArns}
	err := holdPolicies(ctx, maxAnswer, in.PolicyInputList, in.PermissionsBoundaryPolicyInputList,
		[]string{aws.ToString(in.ResourcePolicy)})
	if err != nil {
		return nil, err
	}
	var keys policy.Context
	sim.who, sim.policies, keys, err = s.identity.PoliciesOf(ctx, account(ctx), *in.PolicySourceArn)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noSuchEntity("The principal %s cannot be found.", *in.PolicySourceArn)
	}
	if err != nil {
		return nil, err
	}
	given, err := documents("PolicyInputList", in.PolicyInputList)
	if err != nil {
		return nil, err
	}
	sim.policies.Identity = append(slices.Clone(sim.policies.Identity), given...)
	if len(in.PermissionsBoundaryPolicyInputList) > 0 {
		if sim.policies.Boundary, err = documents("PermissionsBoundaryPolicyInputList",
			in.PermissionsBoundaryPolicyInputList); err != nil {
			return nil, err
		}
	}
	sim.keys = policy.Layers{contextOf(in.ContextEntries), keys}
	caller := in.CallerArn
	if caller == nil && !strings.Contains(*in.PolicySourceArn, ":group/") {
		caller = in.PolicySourceArn
	}
	if err := sim.addResourcePolicy(in.ResourcePolicy, in.ResourceOwner, caller, account(ctx)); err != nil {
		return nil, err
	}
	results, marker, truncated, err := sim.simulateAll(ctx, in.MaxItems, in.Marker)
	return &iam.SimulatePrincipalPolicyOutput{EvaluationResults: results, Marker: marker, IsTruncated: truncated}, err
}

// SimulateCustomPolicy reports what the given policies allow.
func (s *Service) SimulateCustomPolicy(ctx context.Context, in *iam.SimulateCustomPolicyInput) (
	*iam.SimulateCustomPolicyOutput, error) {
	if len(in.OrderedOrganizationPolicyInputList) > 0 {
		return nil,
			invalidInput("OrderedOrganizationPolicyInputList is not supported by coracle, which has no organizations.")
	}
	sim := simulation{
		actions: in.ActionNames, resources: in.ResourceArns, keys: contextOf(in.ContextEntries),
		who: policy.Principal{Type: policy.User, Account: account(ctx)},
	}
	err := holdPolicies(ctx, maxAnswer, in.PolicyInputList, in.PermissionsBoundaryPolicyInputList,
		[]string{aws.ToString(in.ResourcePolicy)})
	if err != nil {
		return nil, err
	}
	if sim.policies.Identity, err = documents("PolicyInputList", in.PolicyInputList); err != nil {
		return nil, err
	}
	if sim.policies.Boundary, err = documents("PermissionsBoundaryPolicyInputList",
		in.PermissionsBoundaryPolicyInputList); err != nil {
		return nil, err
	}
	if err := sim.addResourcePolicy(in.ResourcePolicy, in.ResourceOwner, in.CallerArn, account(ctx)); err != nil {
		return nil, err
	}
	results, marker, truncated, err := sim.simulateAll(ctx, in.MaxItems, in.Marker)
	return &iam.SimulateCustomPolicyOutput{EvaluationResults: results, Marker: marker, IsTruncated: truncated}, err
}

// holdPolicies takes the memory for policies that a request gives, and for an answer of that many bytes.
func holdPolicies(ctx context.Context, answer int64, lists ...[]string) error {
	var total int64
	for _, texts := range lists {
		for _, text := range texts {
			total += int64(len(text))
		}
	}
	if total > maxPolicyText {
		return invalidInput("The policies have %d bytes together, and a request can have at most %d: split it.", total,
			maxPolicyText)
	}
	return wire.HoldAnswer(ctx, answer+total*policyBytes)
}

// documents reads identity-based policies given in a request. A bad one is InvalidInput here, as on AWS.
func documents(list string, texts []string) ([]policy.Source, error) {
	var sources []policy.Source
	for i, text := range texts {
		d, err := policy.Parse(policy.Identity, text)
		if err != nil {
			return nil, invalidInput("Invalid policy %s.%d: %s", list, i+1, err)
		}
		sources = append(sources, policy.Source{Document: d, Name: fmt.Sprintf("%s.%d", list, i+1), Type: "IAM Policy"})
	}
	return sources, nil
}

func contextOf(entries []types.ContextEntry) policy.Context {
	keys := policy.Context{}
	for _, e := range entries {
		keys[aws.ToString(e.ContextKeyName)] = e.ContextKeyValues
	}
	return keys
}

var simulatedCaller = regexp.MustCompile(`^arn:aws:(iam|sts)::(\d{12}):(user|role|assumed-role|root)(?:/(.+))?$`)

// addResourcePolicy adds the policy of the resource, which needs to know who the caller is.
func (sim *simulation) addResourcePolicy(document, owner, caller *string, account string) error {
	if caller != nil {
		m := simulatedCaller.FindStringSubmatch(*caller)
		if m == nil {
			return invalidInput("CallerArn %s is not the ARN of a user, role or root user.", *caller)
		}
		sim.who.ARN, sim.who.Account = *caller, m[2]
		if sim.who.IAMARN == "" || *caller != sim.who.IAMARN {
			sim.who.IAMARN, sim.who.ID = *caller, ""
		}
		switch m[3] {
		case "role", "assumed-role":
			sim.who.Type = policy.AssumedRole
		case "user":
			sim.who.Type = policy.User
		}
	}
	if document == nil {
		return nil
	}
	if caller == nil {
		return invalidInput("CallerArn is required with ResourcePolicy.")
	}
	d, err := policy.Parse(policy.Resource, *document)
	if err != nil {
		return invalidInput("Invalid ResourcePolicy: %s", err)
	}
	sim.policies.Resource = []policy.Source{{Document: d, Name: "ResourcePolicy", Type: "Resource Policy"}}
	sim.policies.ResourceAccount = account
	if owner != nil {
		parts := strings.Split(*owner, ":")
		if len(parts) != 6 {
			return invalidInput("ResourceOwner %s is not the ARN of an account, such as arn:aws:iam::%s:root.", *owner,
				account)
		}
		sim.policies.ResourceAccount = parts[4]
	}
	return nil
}

const (
	// maxQuestions bounds how many pairs of an action and a resource a simulation has.
	maxQuestions = 10_000
	// maxSteps bounds the work of simulating a page of them, a fraction of a second.
	maxSteps = 1 << 28
	// maxPolicyText bounds the policies that a request gives, in bytes: AWS bounds each of them to 128 KiB.
	maxPolicyText = 1 << 20
	// policyBytes is the memory that a byte of a policy takes once it is read.
	policyBytes = 32
	// maxAnswer bounds the memory of an answer: a page ends where it is reached.
	maxAnswer = 8 << 20
	// statementBytes and resultBytes are the memory that a statement and a result take beside their texts, in XML too.
	statementBytes = 512
	resultBytes    = 1024
	// maxStatements bounds the statements of a result: the size of a page.
	maxStatements = maxAnswer / statementBytes / 2
)

// question is an action on a resource. n gives questions an order for paging.
type question struct {
	n                int
	action, resource string
}

func questionKey(q question) string { return fmt.Sprintf("%08d", q.n) }

// simulateAll asks for every action on every resource, as far as they are on the page.
func (sim *simulation) simulateAll(ctx context.Context, maxItems *int32, marker *string) (
	[]types.EvaluationResult, *string, bool, error) {
	resources := sim.resources
	if len(resources) == 0 {
		resources = []string{"*"}
	}
	if n := len(sim.actions) * len(resources); n > maxQuestions {
		return nil, nil, false, invalidInput(
			"%d ActionNames and %d ResourceArns are %d simulations, and a request can have at most %d: split it.",
			len(sim.actions), len(resources), n, maxQuestions)
	}
	var all []question
	for _, action := range sim.actions {
		for _, resource := range resources {
			all = append(all, question{len(all), action, resource})
		}
	}
	questions, next, truncated, err := paginate(ctx, all, maxItems, marker, questionKey)
	if err != nil {
		return nil, nil, false, err
	}
	budget := policy.NewBudget(ctx, maxSteps)
	results := make([]types.EvaluationResult, 0, len(questions))
	left := maxAnswer
	for _, q := range questions {
		r, err := sim.evaluateQuestion(q, budget)
		var tooLong *policy.TooLongError
		switch {
		case errors.Is(err, policy.ErrBudget):
			return nil, nil, false, invalidInput(
				"Simulating the request takes too much work: give fewer or shorter policies, ActionNames or " +
					"ResourceArns, or a smaller MaxItems.")
		case errors.As(err, &tooLong):
			return nil, nil, false, invalidInput("%s cannot be simulated: %s.", q.action, tooLong)
		case err != nil:
			return nil, nil, false, err
		}
		if left -= sizeOf(r); left < 0 && len(results) > 0 {
			// The rest is for the next page: AWS too gives less than MaxItems at times.
			_, next, truncated, err = paginate(ctx, all, new(int32(len(results))), marker, questionKey)
			return results, next, truncated, err
		}
		results = append(results, r)
	}
	return results, next, truncated, nil
}

// sizeOf estimates the memory that a result takes, in bytes.
func sizeOf(r types.EvaluationResult) int {
	size := resultBytes + len(*r.EvalActionName) + len(*r.EvalResourceName)
	for _, s := range r.MatchedStatements {
		size += statementBytes + len(*s.SourcePolicyId)
	}
	for _, key := range r.MissingContextValues {
		size += 64 + 2*len(key)
	}
	return size
}

func (sim *simulation) evaluateQuestion(q question, budget *policy.Budget) (types.EvaluationResult, error) {
	request := &policy.Request{Action: q.action, Resource: q.resource, Principal: sim.who, Keys: sim.keys,
		Budget: budget}
	d := policy.Evaluate(request, &sim.policies)
	r := types.EvaluationResult{
		EvalActionName: aws.String(q.action), EvalResourceName: aws.String(q.resource),
		EvalDecision:      types.PolicyEvaluationDecisionType(d.Verdict),
		MatchedStatements: []types.Statement{},
	}
	if d.Err != nil {
		return r, d.Err
	}
	effect := policy.Allow
	if d.Verdict == policy.ExplicitDeny {
		effect = policy.Deny
	}
	everything := slices.Concat(sim.policies.Identity, sim.policies.Boundary, sim.policies.Resource)
	determining := slices.Concat(sim.policies.Identity, sim.policies.Resource)
	if effect == policy.Deny {
		determining = everything
	}
	if d.Verdict != policy.ImplicitDeny {
		matches, err := policy.Matches(request, determining)
		if err != nil {
			return r, err
		}
		for _, m := range matches {
			if m.Statement.Effect != effect {
				continue
			}
			if len(r.MatchedStatements) == maxStatements {
				return r, invalidInput("%s on %s matches more than %d statements: give fewer policies.", q.action,
					q.resource, maxStatements)
			}
			r.MatchedStatements = append(r.MatchedStatements, statementType(m))
		}
	}
	missing, err := policy.MissingKeys(everything, sim.keys, budget)
	if err != nil {
		return r, err
	}
	r.MissingContextValues = append([]string{}, missing...) // there without any, too
	if len(sim.policies.Boundary) > 0 {
		allows, err := policy.Allows(request, sim.policies.Boundary)
		if err != nil {
			return r, err
		}
		r.PermissionsBoundaryDecisionDetail = &types.PermissionsBoundaryDecisionDetail{
			AllowedByPermissionsBoundary: allows}
	}
	return r, nil
}

func statementType(m policy.Match) types.Statement {
	position := func(p policy.Position) *types.Position {
		return &types.Position{Line: int32(p.Line), Column: int32(p.Column)}
	}
	start := m.Statement.Start
	start.Column++ // AWS gives the position behind either brace, where its parser is
	return types.Statement{
		SourcePolicyId: aws.String(m.Policy.Name), SourcePolicyType: types.PolicySourceType(m.Policy.Type),
		StartPosition: position(start), EndPosition: position(m.Statement.End),
	}
}

// GetContextKeysForCustomPolicy lists the condition keys that the given policies read.
func (s *Service) GetContextKeysForCustomPolicy(ctx context.Context, in *iam.GetContextKeysForCustomPolicyInput) (
	*iam.GetContextKeysForCustomPolicyOutput, error) {
	if err := holdPolicies(ctx, 0, in.PolicyInputList); err != nil {
		return nil, err
	}
	sources, err := documents("PolicyInputList", in.PolicyInputList)
	if err != nil {
		return nil, err
	}
	keys, err := contextKeys(ctx, sources)
	return &iam.GetContextKeysForCustomPolicyOutput{ContextKeyNames: keys}, err
}

// GetContextKeysForPrincipalPolicy lists the condition keys that the policies of a user, group or role read.
func (s *Service) GetContextKeysForPrincipalPolicy(ctx context.Context, in *iam.GetContextKeysForPrincipalPolicyInput) (
	*iam.GetContextKeysForPrincipalPolicyOutput, error) {
	if err := holdPolicies(ctx, 0, in.PolicyInputList); err != nil {
		return nil, err
	}
	_, policies, _, err := s.identity.PoliciesOf(ctx, account(ctx), *in.PolicySourceArn)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noSuchEntity("The principal %s cannot be found.", *in.PolicySourceArn)
	}
	if err != nil {
		return nil, err
	}
	given, err := documents("PolicyInputList", in.PolicyInputList)
	if err != nil {
		return nil, err
	}
	keys, err := contextKeys(ctx, slices.Concat(policies.Identity, policies.Boundary, given))
	return &iam.GetContextKeysForPrincipalPolicyOutput{ContextKeyNames: keys}, err
}

func contextKeys(ctx context.Context, sources []policy.Source) ([]string, error) {
	keys, err := policy.MissingKeys(sources, nil, policy.NewBudget(ctx, maxSteps))
	slices.Sort(keys)
	return keys, err
}
