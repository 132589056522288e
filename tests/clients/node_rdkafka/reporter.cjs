// A mocha reporter that writes each test's verdict to the file $RESULTS as it comes.
'use strict';

const fs = require('fs');

module.exports = function Reporter(runner) {
  const nameOf = (test) => test.fullTitle().trim().replace(/\s+/g, '_');
  const tell = (verdict, test) => fs.appendFileSync(process.env.RESULTS, `${verdict} ${nameOf(test)}\n`);
  runner.on('pass', (test) => tell('PASS', test));
  runner.on('pending', (test) => tell('SKIP', test));
  runner.on('fail', (test, error) => {
    tell('FAIL', test);
    console.log(test.fullTitle(), error.stack || error);
  });
};
