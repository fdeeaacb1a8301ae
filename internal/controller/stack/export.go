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
		err = i.c.store.Txn(store.Limited(ctx), i.c.imported.PutOp(key, used), i.c.exports.UpdateOp(export))
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrNotFound) {
			return export.Value.Value, err
		}
	}
}

// endImports records that the stack no longer uses the exports that the operation has not asked for. With a revision,
// those of that revision are asked for.
func (p *pass) endImports(ctx context.Context, revision string) error {
	ops, err := p.importOps(ctx, revision)
	if err != nil || len(ops) == 0 {
		return err
	}
	return p.c.store.Txn(ctx, ops...)
}

// importOps returns the ops of endImports.
func (p *pass) importOps(ctx context.Context, revision string) (ops []store.Op, err error) {
	if revision != "" {
		bound, _, err := p.bind(ctx, revision)
		if err != nil {
			return nil, err
		}
		for _, id := range bound.LogicalIDs() {
			held, release, err := p.evaluating(ctx)
			if err != nil {
				return nil, err
			}
			_, err = bound.Properties(held, id, &known{pass: p, ctx: held})
			release()
			if err != nil {
				return nil, nil //nolint:nilerr // the resource is not what it was: its imports stay
			}
		}
	}
	rows, err := p.c.importsOf.List(ctx, p.stack.ID)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if revision == "" || row.Value.OperationID != p.stack.Operation.ID {
			ops = append(ops, p.c.imported.RemoveOp(row.Key))
		}
	}
	return ops, nil
}

// exportOps returns the ops that record the exports of outputs, and delete those that the stack no longer has. The
// reason tells why it may not. The ops fail with a conflict when somebody begins to use what they change, or has the
// same name.
func (p *pass) exportOps(ctx context.Context, outputs []template.Output) (ops []store.Op, reason string, err error) {
	wanted := map[string]string{}
	for _, o := range outputs {
		if o.Export != "" {
			wanted[o.Export] = o.Value
		}
	}
	if ops, reason, err = p.removalOps(ctx, wanted); err != nil || reason != "" {
		return nil, reason, err
	}
	s := p.stack
	for name, value := range wanted {
		key := record.StackExportKey(s.Account, s.Region, name)
		export := record.StackExport{Account: s.Account, Region: s.Region, Name: name, StackID: s.ID, StackName: s.Name,
			Value: value}
		row, err := p.c.exports.Get(ctx, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			ops = append(ops, p.c.exports.CreateOp(key, export))
		case err != nil:
			return nil, "", err
		case row.Value.StackID != s.ID:
			return nil, fmt.Sprintf("Export with name %s is already exported by stack %s. Rollback requested by user.", name,
				row.Value.StackName), nil
		case row.Value.Value != value:
			users, err := p.usersOf(ctx, name)
			if err != nil {
				return nil, "", err
			}
			if len(users) > 0 {
				return nil, fmt.Sprintf("Export %s cannot be updated as it is in use by %s", name,
					strings.Join(users, " and ")), nil
			}
			row.Value = export
			ops = append(ops, p.c.exports.UpdateOp(row))
		}
	}
	return ops, "", nil
}

// removalOps returns the ops that delete the exports of the stack but those that are wanted.
func (p *pass) removalOps(ctx context.Context, wanted map[string]string) (ops []store.Op, reason string, err error) {
	rows, err := p.c.exportsOf.List(ctx, p.stack.ID)
	if err != nil {
		return nil, "", err
	}
	for _, row := range rows {
		if _, ok := wanted[row.Value.Name]; ok {
			continue
		}
		users, err := p.usersOf(ctx, row.Value.Name)
		if err != nil {
			return nil, "", err
		}
		if len(users) > 0 {
			return nil, fmt.Sprintf("Export %s cannot be deleted as it is in use by %s", row.Value.Name,
				strings.Join(users, " and ")), nil
		}
		ops = append(ops, p.c.exports.DeleteOp(row))
	}
	return ops, "", nil
}

// removeExports deletes the exports of the stack.
func (p *pass) removeExports(ctx context.Context) (reason string, err error) {
	for {
		ops, reason, err := p.removalOps(ctx, nil)
		if err != nil || reason != "" || len(ops) == 0 {
			return reason, err
		}
		if err = p.c.store.Txn(ctx, ops...); !errors.Is(err, store.ErrConflict) { // somebody has begun to use one
			return "", err
		}
	}
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
