// See setup.js.
const { spawnSync } = require('node:child_process');

process.exit(spawnSync('sh', [`${__dirname}/cleanup.sh`], { stdio: 'inherit' }).status ?? 1);
