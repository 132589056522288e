//! The log under fire: clients write down what they see while servers stall, lie and die; a checker judges.

mod checker;
mod checker_tests;
mod history;
