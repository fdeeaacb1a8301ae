package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coracle-eks/coracle/internal/cloudformation/template"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// importer finds the exports of other stacks, and records that they are used.
type importer struct {
	c     *Controller
	stack record.Stack
}

// value returns the value of an export.
func (i importer) value(ctx context.Context, name string) (string, error) {
	s := i.stack
	for {
		export, err := i.c.exports.Get(ctx, record.StackExportKey(s.Account, s.Region, name))
		if errors.Is(err, store.ErrNotFound) {
			return "", template.ErrNotFound
		}
		if err != nil {
			return "", err
		}
		key := record.StackImportedValueKey(s.Account, s.Region, name, s.ID)
		used := record.StackImportedValue{Account: s.Account, Region: s.Region, Name: name, StackID: s.ID,
			StackName: s.Name, OperationID: s.Operation.ID}
		if row, err := i.c.imported.Get(ctx, key); err == nil && row.Value == used {
			return export.Value.Value, nil
		}
		// The export is written as it is: a deletion that did not see the use fails, and looks again.
		err = i.c.store.Txn(ctx, i.c.imported.PutOp(key, used), i.c.exports.UpdateOp(export))
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			return export.Value.Value, err
		}
	}
}

// endImports records that the stack no longer uses the exports that the operation has not asked for. With a revision,
// those of that revision are asked for.
func (p *pass) endImports(ctx context.Context, revision string) error {
	if revision != "" {
		bound, _, err := p.bind(ctx, revision)
		if err != nil {
			return err
		}
		for _, id := range bound.LogicalIDs() {
			if _, err := bound.Properties(ctx, id, &known{pass: p, ctx: ctx}); err != nil {
				return nil //nolint:nilerr // the resource is not what it was: its imports stay
			}
		}
	}
	rows, err := p.c.imported.List(ctx, store.Prefix(p.stack.Account, p.stack.Region))
	if err != nil {
		return err
	}
	for _, row := range rows {
		used := row.Value
		if used.StackID != p.stack.ID || revision != "" && used.OperationID == p.stack.Operation.ID {
			continue
		}
		if err := p.c.imported.Delete(ctx, row); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}

// writeExports records the exports of outputs, and deletes those that the stack no longer has. The reason tells why it
// may not.
func (p *pass) writeExports(ctx context.Context, outputs []template.Output) (reason string, err error) {
	wanted := map[string]string{}
	for _, o := range outputs {
		if o.Export != "" {
			wanted[o.Export] = o.Value
		}
	}
	if reason, err := p.removeExports(ctx, wanted); err != nil || reason != "" {
		return reason, err
	}
	s := p.stack
	for name, value := range wanted {
		key := record.StackExportKey(s.Account, s.Region, name)
		export := record.StackExport{Account: s.Account, Region: s.Region, Name: name, StackID: s.ID, StackName: s.Name,
			Value: value}
		row, err := p.c.exports.Get(ctx, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			_, err = p.c.exports.Create(ctx, key, export)
			if errors.Is(err, store.ErrExists) {
				return p.writeExports(ctx, outputs)
			}
		case err != nil:
		case row.Value.StackID != s.ID:
			return fmt.Sprintf("Export with name %s is already exported by stack %s. Rollback requested by user.", name,
				row.Value.StackName), nil
		case row.Value.Value != value:
			users, err := p.usersOf(ctx, name)
			if err != nil {
				return "", err
			}
			if len(users) > 0 {
				return fmt.Sprintf("Export %s cannot be updated as it is in use by %s", name, strings.Join(users, " and ")),
					nil
			}
			row.Value = export
			if _, err = p.c.exports.Update(ctx, row); errors.Is(err, store.ErrConflict) {
				return p.writeExports(ctx, outputs)
			}
			if err != nil {
				return "", err
			}
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

// removeExports deletes the exports of the stack but those that are wanted.
func (p *pass) removeExports(ctx context.Context, wanted map[string]string) (reason string, err error) {
	rows, err := p.c.exports.List(ctx, store.Prefix(p.stack.Account, p.stack.Region))
	if err != nil {
		return "", err
	}
	for _, row := range rows {
		if _, ok := wanted[row.Value.Name]; ok || row.Value.StackID != p.stack.ID {
			continue
		}
		users, err := p.usersOf(ctx, row.Value.Name)
		if err != nil {
			return "", err
		}
		if len(users) > 0 {
			return fmt.Sprintf("Export %s cannot be deleted as it is in use by %s", row.Value.Name,
				strings.Join(users, " and ")), nil
		}
		err = p.c.exports.Delete(ctx, row)
		if errors.Is(err, store.ErrConflict) { // somebody has begun to use it
			return p.removeExports(ctx, wanted)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return "", err
		}
	}
	return "", nil
}

// usersOf returns the names of the other stacks that use an export.
func (p *pass) usersOf(ctx context.Context, export string) (names []string, err error) {
	rows, err := p.c.imported.List(ctx, store.Prefix(p.stack.Account, p.stack.Region, export))
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.Value.StackID != p.stack.ID {
			names = append(names, row.Value.StackName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
