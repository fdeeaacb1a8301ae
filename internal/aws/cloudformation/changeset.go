package cloudformation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/cloudformation/revision"
	"github.com/coracle-eks/coracle/internal/cloudformation/schema"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// changeSetHandlers returns the handlers of this file's operations and how each is authorized.
func (s *Service) changeSetHandlers() []wire.Handler {
	return []wire.Handler{
		wire.Handle(s.CreateChangeSet, func(
			ctx context.Context, action string, in *cloudformation.CreateChangeSetInput,
		) ([]wire.Target, error) {
			targets, err := s.onStack(ctx, action, in.StackName, func(c conditions) {
				c.set("cloudformation:ChangeSetName", in.ChangeSetName)
				c.set("cloudformation:RoleArn", in.RoleARN)
				c.set("cloudformation:TemplateUrl", in.TemplateURL)
				c.resourceTypes(in.ResourceTypes)
				for _, r := range in.ResourcesToImport {
					c["cloudformation:ImportResourceTypes"] = append(c["cloudformation:ImportResourceTypes"],
						aws.ToString(r.ResourceType))
				}
				c.tags(in.Tags)
			})
			if err == nil && in.Tags != nil {
				tag := targets[0]
				tag.Action = "cloudformation:TagResource"
				targets = append(targets, tag)
			}
			return targets, err
		}),
		wire.Handle(s.DescribeChangeSet, func(
			ctx context.Context, action string, in *cloudformation.DescribeChangeSetInput,
		) ([]wire.Target, error) {
			return s.onChangeSet(ctx, action, in.ChangeSetName, in.StackName)
		}),
		wire.Handle(s.ExecuteChangeSet, func(
			ctx context.Context, action string, in *cloudformation.ExecuteChangeSetInput,
		) ([]wire.Target, error) {
			return s.onChangeSet(ctx, action, in.ChangeSetName, in.StackName)
		}),
		wire.Handle(s.DeleteChangeSet, func(
			ctx context.Context, action string, in *cloudformation.DeleteChangeSetInput,
		) ([]wire.Target, error) {
			return s.onChangeSet(ctx, action, in.ChangeSetName, in.StackName)
		}),
		wire.Handle(s.ListChangeSets, func(
			ctx context.Context, action string, in *cloudformation.ListChangeSetsInput,
		) ([]wire.Target, error) {
			return s.onStack(ctx, action, in.StackName)
		}),
	}
}

// noChanges is the status reason of a change set without changes. The AWS CLI and eksctl match it.
const noChanges = "The submitted information didn't contain changes. Submit different information to create a change " +
	"set."

// CreateChangeSet records what an update would do. With the type CREATE it makes a stack that has nothing yet.
func (s *Service) CreateChangeSet(ctx context.Context, in *cloudformation.CreateChangeSetInput) (
	*cloudformation.CreateChangeSetOutput, error) {
	name := aws.ToString(in.ChangeSetName)
	if !stackName.MatchString(name) || len(name) > 128 {
		return nil, validation("1 validation error detected: Value '%s' at 'changeSetName' failed to satisfy constraint: "+
			"Member must satisfy regular expression pattern: [a-zA-Z][-a-zA-Z0-9]*", name)
	}
	if aws.ToBool(in.IncludeNestedStacks) || aws.ToBool(in.ImportExistingResources) {
		return nil, validation("IncludeNestedStacks and ImportExistingResources are not supported by coracle")
	}
	v, fresh, err := s.changedStack(ctx, in)
	if err != nil {
		return nil, err
	}
	if !fresh {
		key := record.ChangeSetKey(v.Account, v.Region, v.ID, name)
		if row, err := s.changeSets.Get(ctx, key); err == nil {
			if token := aws.ToString(in.ClientToken); token != "" && token == row.Value.Token {
				return &cloudformation.CreateChangeSetOutput{Id: aws.String(row.Value.ARN()),
					StackId: aws.String(v.ARN())}, nil
			}
			return nil, &types.AlreadyExistsException{Message: aws.String("ChangeSet " + name + " already exists")}
		}
		if s.changeSets.Count(store.Prefix(v.Account, v.Region, v.ID)) >= maxChangeSets {
			return nil, limitExceeded("Limit for change sets has been exceeded")
		}
	}
	role, err := s.roleFor(ctx, v, in.RoleARN)
	if err != nil {
		return nil, err
	}
	imports, err := s.readImports(in)
	if err != nil {
		return nil, err
	}
	tags := in.Tags
	if fresh && tags == nil {
		tags = []types.Tag{}
	}
	p, err := s.prepare(ctx, v, wanted{
		body: in.TemplateBody, url: in.TemplateURL, usePrevious: in.UsePreviousTemplate, parameters: in.Parameters,
		capabilities: in.Capabilities, tags: tags, topics: in.NotificationARNs, types: in.ResourceTypes,
		roleARN: role, triggers: in.RollbackConfiguration,
	})
	if err != nil {
		return nil, err
	}
	set := record.ChangeSet{
		Account: v.Account, Region: v.Region, StackID: v.ID, StackName: v.Name, ID: newID(), Name: name,
		Type: in.ChangeSetType, Description: aws.ToString(in.Description), CreatedAt: s.timestamp(),
		Token: aws.ToString(in.ClientToken), After: lastOperation(v), Revision: p.id, RoleARN: role,
		OnStackFailure: in.OnStackFailure, Imports: imports, Status: types.ChangeSetStatusCreateComplete,
		Execution: types.ExecutionStatusAvailable,
	}
	if set.Type == "" {
		set.Type = types.ChangeSetTypeUpdate
	}
	if err := s.checkImports(p, imports); err != nil {
		return nil, err
	}
	changes, err := s.hasChanges(ctx, v, p)
	if err != nil {
		return nil, err
	}
	if !changes {
		set.Status, set.Execution = types.ChangeSetStatusFailed, types.ExecutionStatusUnavailable
		set.StatusReason = noChanges
		if fresh {
			set.StatusReason = "No updates are to be performed."
		}
	}
	shown, err := showChanges(ctx, p, imports)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return nil, err
	}
	if len(text) > maxChangeText {
		return nil, errManyChanges(len(text))
	}
	if set.Changes = revision.Compress(string(text)); len(set.Changes) > 1<<20 {
		return nil, errManyChanges(len(text))
	}
	if err := s.saveRevision(ctx, v, p); err != nil {
		return nil, err
	}
	if fresh {
		if err := s.recordNew(ctx, v); err != nil {
			return nil, err
		}
	}
	_, err = s.changeSets.Create(ctx, record.ChangeSetKey(v.Account, v.Region, v.ID, name), set)
	if errors.Is(err, store.ErrExists) {
		err = &types.AlreadyExistsException{Message: aws.String("ChangeSet " + name + " already exists")}
	}
	if err != nil {
		return nil, err
	}
	return &cloudformation.CreateChangeSetOutput{Id: aws.String(set.ARN()), StackId: aws.String(v.ARN())}, nil
}

// changedStack returns the stack that a change set is of, and whether it is a new one.
func (s *Service) changedStack(ctx context.Context, in *cloudformation.CreateChangeSetInput) (view, bool, error) {
	name := aws.ToString(in.StackName)
	v, err := s.find(ctx, name)
	exists := err == nil && !v.isDeleted()
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return v, false, err
	}
	reviewed := exists && v.status() == types.StackStatusReviewInProgress
	switch in.ChangeSetType {
	case types.ChangeSetTypeCreate, types.ChangeSetTypeImport:
		if reviewed {
			return v, false, nil
		}
		if exists && in.ChangeSetType == types.ChangeSetTypeCreate {
			return v, false, &types.AlreadyExistsException{Message: aws.String("Stack [" + name +
				"] already exists and cannot be created again with the changeSet [" + aws.ToString(in.ChangeSetName) + "].")}
		}
		if exists {
			return v, false, checkUpdatable(v)
		}
		if err := checkStackName(name); err != nil {
			return v, false, err
		}
		at := scopeOf(ctx)
		if s.countStacks(ctx, at) >= maxStacks {
			return v, false, limitExceeded("Limit for stack has been exceeded")
		}
		return view{Stack: record.Stack{Account: at.account, Region: at.region, Name: name, ID: newID(),
			CreatedAt: s.timestamp()}}, true, nil
	case types.ChangeSetTypeUpdate, "":
		if !exists {
			return v, false, validation("Stack [%s] does not exist", name)
		}
		return v, false, checkUpdatable(v)
	}
	return v, false, validation("1 validation error detected: Value '%s' at 'changeSetType' failed to satisfy "+
		"constraint: Member must satisfy enum value set: [IMPORT, UPDATE, CREATE]", in.ChangeSetType)
}

// readImports returns the identifiers of the resources that a change set imports.
func (s *Service) readImports(in *cloudformation.CreateChangeSetInput) (map[string]map[string]string, error) {
	if (in.ChangeSetType == types.ChangeSetTypeImport) != (len(in.ResourcesToImport) > 0) {
		return nil, validation("ResourcesToImport must be specified with the change set type IMPORT, and only then")
	}
	imports := map[string]map[string]string{}
	for _, r := range in.ResourcesToImport {
		id, kind := aws.ToString(r.LogicalResourceId), aws.ToString(r.ResourceType)
		known, ok := schema.Of(kind)
		if _, served := s.options.Types.Refused(kind); !ok || !served {
			return nil, validation("ResourceTypes [%s] are not supported for Import", kind)
		}
		imports[id] = map[string]string{}
		for _, name := range known.PrimaryIdentifier {
			if r.ResourceIdentifier[name] == "" {
				return nil, validation("Resource identifier of %s must have %v", id, known.PrimaryIdentifier)
			}
			imports[id][name] = r.ResourceIdentifier[name]
		}
	}
	return imports, nil
}

// checkImports refuses an import that does anything else, or of resources that may not be imported.
func (s *Service) checkImports(p *prepared, imports map[string]map[string]string) error {
	if len(imports) == 0 {
		return nil
	}
	added := map[string]bool{}
	for _, c := range p.changes {
		if c.Action != "Add" {
			return validation("As part of the import operation, you cannot modify or add [%s]", c.LogicalID)
		}
		if imports[c.LogicalID] == nil {
			return validation("As part of the import operation, you cannot modify or add [%s]", c.LogicalID)
		}
		added[c.LogicalID] = true
	}
	for id := range imports {
		if !added[id] {
			return validation("Resources [%s] are missing from the template or exist in the stack already", id)
		}
		if p.bound.Resource(id).DeletionPolicy == "" {
			return validation("Resources to import must have DeletionPolicy specified in the template: [%s]", id)
		}
	}
	return nil
}

var changeSetARN = regexp.MustCompile(
	`^arn:[a-z-]+:cloudformation:([a-z0-9-]+):([0-9]{12}):changeSet/([^/]+)/([^/]+)$`)

// changeSetByARN returns a change set by its ID.
func (s *Service) changeSetByARN(ctx context.Context, arn string) (store.Row[record.ChangeSet], error) {
	at, m := scopeOf(ctx), changeSetARN.FindStringSubmatch(arn)
	if m == nil || m[1] != at.region || m[2] != at.account {
		return store.Row[record.ChangeSet]{}, store.ErrNotFound
	}
	rows, err := s.changeSets.List(ctx, at.prefix())
	if err != nil {
		return store.Row[record.ChangeSet]{}, err
	}
	for _, row := range rows {
		if row.Value.ID == m[4] && row.Value.Name == m[3] {
			return row, nil
		}
	}
	return store.Row[record.ChangeSet]{}, store.ErrNotFound
}

// findChangeSet returns a change set by its ID, or by its name and that of its stack. Authorization and operations both
// use it, so that they mean the same change set, of the same stack. The error is store.ErrNotFound if there is none,
// with the stack if that is known: also if a request names a change set by its ID together with another stack.
func (s *Service) findChangeSet(ctx context.Context, name, stack *string) (store.Row[record.ChangeSet], view, error) {
	of := aws.ToString(stack)
	if strings.HasPrefix(aws.ToString(name), "arn:") {
		row, err := s.changeSetByARN(ctx, *name)
		if err != nil {
			return row, view{}, err
		}
		v, err := s.load(ctx, record.StackKey(row.Value.Account, row.Value.Region, row.Value.StackID))
		if err == nil && of != "" && of != v.Name && of != v.ARN() {
			err = store.ErrNotFound
		}
		return row, v, err
	}
	v, err := s.find(ctx, of)
	if err != nil {
		return store.Row[record.ChangeSet]{}, view{}, err
	}
	row, err := s.changeSets.Get(ctx, record.ChangeSetKey(v.Account, v.Region, v.ID, aws.ToString(name)))
	return row, v, err
}

// getChangeSet is like findChangeSet, and returns AWS's error for a change set that does not exist.
func (s *Service) getChangeSet(ctx context.Context, name, stack *string) (store.Row[record.ChangeSet], view, error) {
	isARN := strings.HasPrefix(aws.ToString(name), "arn:")
	if !isARN && aws.ToString(stack) == "" {
		return store.Row[record.ChangeSet]{}, view{}, validation("StackName must be specified if ChangeSetName is not " +
			"specified as an ARN.")
	}
	row, v, err := s.findChangeSet(ctx, name, stack)
	switch {
	case !errors.Is(err, store.ErrNotFound):
		return row, v, err
	case !isARN && v.ID == "":
		return row, v, validation("Stack [%s] does not exist", *stack)
	}
	return row, v, &types.ChangeSetNotFoundException{Message: aws.String("ChangeSet [" + aws.ToString(name) +
		"] does not exist")}
}

// lastOperation returns the last operation of a stack, as ChangeSet.After has it.
func lastOperation(v view) string { return cmp.Or(v.Operation.ID, "none") }

// execution returns the execution status of a change set: of one that was executed, as its operation went.
func execution(set record.ChangeSet, v view) types.ExecutionStatus {
	if set.OperationID == "" {
		if set.Execution == types.ExecutionStatusAvailable && lastOperation(v) != set.After &&
			(set.After != "" || v.Operation.StartedAt.After(set.CreatedAt)) {
			return types.ExecutionStatusObsolete
		}
		return set.Execution
	}
	switch status := string(v.status()); {
	case v.Operation.ID != set.OperationID:
		return types.ExecutionStatusExecuteComplete
	case strings.Contains(status, "ROLLBACK") || strings.HasSuffix(status, "FAILED"):
		return types.ExecutionStatusExecuteFailed
	case strings.HasSuffix(status, "_IN_PROGRESS") && !strings.Contains(status, "CLEANUP"):
		return types.ExecutionStatusExecuteInProgress
	}
	return types.ExecutionStatusExecuteComplete
}

// DescribeChangeSet shows what an update would do.
func (s *Service) DescribeChangeSet(ctx context.Context, in *cloudformation.DescribeChangeSetInput) (
	*cloudformation.DescribeChangeSetOutput, error) {
	row, v, err := s.getChangeSet(ctx, in.ChangeSetName, in.StackName)
	if err != nil {
		return nil, err
	}
	set := row.Value
	of, err := s.revision(ctx, v, set.Revision)
	if err != nil {
		return nil, err
	}
	if size := revision.DecompressedSize(set.Changes); size > freeChangeText {
		if err := wire.HoldAnswer(ctx, changeFactor*size); err != nil {
			return nil, err
		}
	}
	text, err := revision.Decompress(set.Changes)
	if err != nil {
		return nil, err
	}
	var all []types.Change
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, err
	}
	if !aws.ToBool(in.IncludePropertyValues) {
		for i := range all {
			hideValues(all[i].ResourceChange)
		}
	}
	page, next, err := wire.Page(ctx, all, nil, in.NextToken, func(c types.Change) string {
		return aws.ToString(c.ResourceChange.LogicalResourceId)
	})
	if err != nil {
		return nil, err
	}
	out := &cloudformation.DescribeChangeSetOutput{
		ChangeSetName: aws.String(set.Name), ChangeSetId: aws.String(set.ARN()), StackId: aws.String(v.ARN()),
		StackName: aws.String(v.Name), Description: optional(set.Description), CreationTime: aws.Time(set.CreatedAt),
		Status: set.Status, StatusReason: optional(set.StatusReason), ExecutionStatus: execution(set, v),
		NextToken: next, Changes: page, Tags: tagList(of.Tags), Parameters: parameterList(of.Parameters),
		OnStackFailure: set.OnStackFailure, NotificationARNs: []string{},
		RollbackConfiguration: &types.RollbackConfiguration{}, IncludeNestedStacks: aws.Bool(false),
		ImportExistingResources: aws.Bool(false),
	}
	if out.Changes == nil {
		out.Changes = []types.Change{}
	}
	for _, c := range of.Capabilities {
		out.Capabilities = append(out.Capabilities, types.Capability(c))
	}
	return out, nil
}

// ListChangeSets lists the change sets of a stack.
func (s *Service) ListChangeSets(ctx context.Context, in *cloudformation.ListChangeSetsInput) (
	*cloudformation.ListChangeSetsOutput, error) {
	v, err := s.find(ctx, aws.ToString(in.StackName))
	if errors.Is(err, store.ErrNotFound) {
		return nil, validation("Stack [%s] does not exist", aws.ToString(in.StackName))
	}
	if err != nil {
		return nil, err
	}
	rows, err := s.changeSets.List(ctx, store.Prefix(v.Account, v.Region, v.ID))
	if err != nil {
		return nil, err
	}
	page, next, err := wire.Page(ctx, rows, nil, in.NextToken, func(r store.Row[record.ChangeSet]) string { return r.Key })
	if err != nil {
		return nil, err
	}
	out := &cloudformation.ListChangeSetsOutput{NextToken: next, Summaries: []types.ChangeSetSummary{}}
	for _, row := range page {
		set := row.Value
		out.Summaries = append(out.Summaries, types.ChangeSetSummary{
			ChangeSetName: aws.String(set.Name), ChangeSetId: aws.String(set.ARN()), StackId: aws.String(v.ARN()),
			StackName: aws.String(v.Name), Description: optional(set.Description), CreationTime: aws.Time(set.CreatedAt),
			Status: set.Status, StatusReason: optional(set.StatusReason), ExecutionStatus: execution(set, v),
			IncludeNestedStacks: aws.Bool(false),
		})
	}
	return out, nil
}

// DeleteChangeSet deletes a change set. Its stack stays, even if it has nothing else.
func (s *Service) DeleteChangeSet(ctx context.Context, in *cloudformation.DeleteChangeSetInput) (
	*cloudformation.DeleteChangeSetOutput, error) {
	row, v, err := s.getChangeSet(ctx, in.ChangeSetName, in.StackName)
	var missing *types.ChangeSetNotFoundException
	if errors.As(err, &missing) && !strings.HasPrefix(aws.ToString(in.ChangeSetName), "arn:") {
		return &cloudformation.DeleteChangeSetOutput{}, nil // as AWS
	}
	if err != nil {
		return nil, err
	}
	if execution(row.Value, v) == types.ExecutionStatusExecuteInProgress {
		return nil, &types.InvalidChangeSetStatusException{Message: aws.String("An operation on ChangeSet [" +
			row.Value.ARN() + "] is in progress.")}
	}
	err = s.changeSets.Delete(ctx, row)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return &cloudformation.DeleteChangeSetOutput{}, nil
}

// ExecuteChangeSet records the operation that a change set describes.
func (s *Service) ExecuteChangeSet(ctx context.Context, in *cloudformation.ExecuteChangeSetInput) (
	*cloudformation.ExecuteChangeSetOutput, error) {
	row, v, err := s.getChangeSet(ctx, in.ChangeSetName, in.StackName)
	if err != nil {
		return nil, err
	}
	set := row.Value
	if token := aws.ToString(in.ClientRequestToken); set.OperationID != "" && set.OperationID == v.Operation.ID &&
		token != "" && token == v.Operation.Token {
		return &cloudformation.ExecuteChangeSetOutput{}, nil
	}
	if state := execution(set, v); state != types.ExecutionStatusAvailable {
		return nil, &types.InvalidChangeSetStatusException{Message: aws.String("ChangeSet [" + set.ARN() +
			"] cannot be executed in its current execution status of [" + string(state) + "]")}
	}
	if in.DisableRollback != nil && set.OnStackFailure != "" {
		return nil, validation("You may not specify both OnStackFailure and DisableRollback")
	}
	op := s.newOperation(ctx, record.StackUpdate, types.StackStatusUpdateInProgress, in.ClientRequestToken)
	switch {
	case len(set.Imports) > 0:
		op.Kind, op.Status, op.Imports = record.StackImport, types.StackStatusImportInProgress, set.Imports
	case v.status() == types.StackStatusReviewInProgress:
		op.Kind, op.Status = record.StackCreate, types.StackStatusCreateInProgress
	default:
		if err := checkUpdatable(v); err != nil {
			return nil, err
		}
	}
	op.Revision, op.RoleARN, op.ChangeSet = set.Revision, set.RoleARN, set.ARN()
	op.OnFailure = types.OnFailureRollback
	if set.OnStackFailure != "" {
		op.OnFailure = types.OnFailure(set.OnStackFailure)
	}
	if aws.ToBool(in.DisableRollback) {
		op.OnFailure = types.OnFailureDoNothing
	}
	op.RetainExceptOnCreate = aws.ToBool(in.RetainExceptOnCreate)
	row.Value.OperationID = op.ID
	if err := s.begin(ctx, v, op, nil, s.changeSets.UpdateOp(row)); err != nil {
		return nil, err
	}
	return &cloudformation.ExecuteChangeSetOutput{}, nil
}
