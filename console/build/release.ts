// What a build is given before it is checked in: licenses, compressed files, and their checksums. Everything here is
// computed of the modules alone, so that each build of the same sources has the same bytes.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative, resolve, sep } from "node:path";
import { gzip } from "pako";
import type { Plugin } from "vite";

interface Package {
  name: string;
  version: string;
  license?: string;
}

/** Licenses writes licenses.txt, with the licenses of all packages that are part of the build. */
export function licenses(): Plugin {
  return {
    name: "coracle-licenses",
    generateBundle(_, bundle) {
      const directories = new Set<string>();
      for (const output of Object.values(bundle)) {
        if (output.type !== "chunk") continue;
        for (const id of output.moduleIds) {
          const directory = packageOf(id);
          if (directory !== undefined) directories.add(directory);
        }
      }
      const texts = [...directories].map(licenseOf).sort();
      this.emitFile({ type: "asset", fileName: "licenses.txt", source: [...new Set(texts)].join("\n") });
    },
  };
}

/** PackageOf returns the directory of the package that a module is part of. */
function packageOf(id: string): string | undefined {
  const at = id.lastIndexOf("/node_modules/");
  if (at < 0) return undefined;
  const modules = id.slice(id.startsWith("\0") ? 1 : 0, at) + "/node_modules";
  const [scope = "", name = ""] = id.slice(at + "/node_modules/".length).split("/");
  return scope.startsWith("@") ? `${modules}/${scope}/${name}` : `${modules}/${scope}`;
}

function licenseOf(directory: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8")) as Package;
  const files = readdirSync(directory).filter((file) => /^(licen[cs]e|notice)(\.|$)/i.test(file));
  const texts = files.sort().map((file) => readFileSync(join(directory, file), "utf8").trim());
  return [`${name} ${version} (${license ?? "see below"})`, ...texts, ""].join("\n\n");
}

/** Compress replaces what compresses by gzip files, and writes SHA256SUMS. */
export function compress(): Plugin {
  let directory = "";
  return {
    name: "coracle-compress",
    configResolved(config) {
      directory = resolve(config.root, config.build.outDir);
    },
    closeBundle() {
      for (const file of filesOf(directory)) {
        if (!/\.(js|css|svg|txt|json)$/.test(file)) continue;
        writeFileSync(`${file}.gz`, gzip(readFileSync(file), { level: 9 }));
        rmSync(file);
      }
      const sums = filesOf(directory).map((file) => {
        const sum = createHash("sha256").update(readFileSync(file)).digest("hex");
        return `${sum}  ${relative(directory, file).split(sep).join("/")}\n`;
      });
      writeFileSync(join(directory, "SHA256SUMS"), sums.join(""));
    },
  };
}

function filesOf(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== "SHA256SUMS")
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}
